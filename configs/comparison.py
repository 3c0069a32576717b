"""The comparison file: one traffic and SLO, and the candidates that may carry it. docs/compare.md explains each key."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, PrivateAttr, ValidationError, model_validator

from servecast.configs.architectures import load_architecture
from servecast.configs.comparison_sections import (
    CandidateSection,
    CostSection,
    GpuPriceSection,
    KnobsSection,
    SearchSection,
    TargetSection,
    Texts,
)
from servecast.configs.fields import Section, Switch, Text, Whole, check, describe
from servecast.configs.load import scenario_from
from servecast.configs.messages import config_error
from servecast.configs.origin import Origin
from servecast.configs.scenario import DEFAULT_ENGINE, Scenario, looks_like_path
from servecast.hardware.errors import ConfigError
from servecast.hardware.gpus import Gpu, gpu_keys, load_gpu
from servecast.hardware.yaml_source import KeyPath, read_yaml
from servecast.model.layout import valid_tensor_parallel_sizes

# Keys of a comparison that are a scenario's and go to every candidate as they are.
SCENARIO_KEYS = ("replica", "scheduler", "fleet", "workload", "slo", "cohorts", "seed", "coast")

ALL = "all"


def _gpus(value: object) -> object:
    return value if value == ALL else ([value] if isinstance(value, str) else value)


class Comparison(Section):
    """A comparison as the user describes it. What belongs to scenarios is validated with each candidate."""

    name: Text = Field(description="Title in tables and reports. Default: the file's name.")
    model: Texts = Field(description="Model, or several: catalogue keys or paths.")
    engine: Texts = Field(default=(DEFAULT_ENGINE,), description="Engine profile, or several.")
    gpus: Annotated[Literal["all"] | tuple[Text, ...], BeforeValidator(_gpus)] | None = Field(
        default=None, description="Candidates, simply: GPUs, or `all` of the catalogue."
    )
    candidates: tuple[CandidateSection, ...] | None = Field(default=None, description="Candidates with settings.")
    target: TargetSection = Field(default_factory=TargetSection, description="What the fleet must carry.")
    knobs: KnobsSection | None = Field(default=None, description="Engine settings to choose the best of.")
    cost: CostSection = Field(default_factory=CostSection, description="What is paid for.")
    prices: dict[str, GpuPriceSection] = Field(default_factory=dict, description="GPU -> prices of your own.")
    search: SearchSection = Field(default_factory=SearchSection, description="How capacities are searched.")
    replica: dict[str, Any] | None = Field(default=None, description="As in a scenario.")
    scheduler: dict[str, Any] | None = Field(default=None, description="As in a scenario.")
    fleet: dict[str, Any] | None = Field(default=None, description="As in a scenario, without `replicas`.")
    workload: dict[str, Any] = Field(description="As in a scenario.")
    slo: Text = Field(description="The latency limits that the fleet must meet.")
    cohorts: dict[str, Any] | None = Field(default=None, description="As in a scenario.")
    seed: Whole = Field(default=0, description="As in a scenario.")
    coast: Switch = Field(default=True, description="As in a scenario.")

    _origin: Origin = PrivateAttr(default_factory=Origin)

    @model_validator(mode="after")
    def _one_kind_of_candidates(self) -> Self:
        hint = "Write gpus: [h100-sxm, l40s], gpus: all, or candidates: [{gpu: h100-sxm, tensor_parallel_size: 2}]"
        check(self.gpus is not None or self.candidates is not None, "gpus", "is missing: nothing to compare", hint)
        check(self.gpus is None or self.candidates is None, "gpus", "stands beside candidates; give one of them", hint)
        check(self.gpus != (), "gpus", "is an empty list: nothing to compare", hint)
        check(self.candidates != (), "candidates", "is an empty list: nothing to compare", hint)
        sized = self.fleet is not None and "replicas" in self.fleet
        check(not sized, "fleet", "has replicas, but their number is what is asked for", "Leave replicas out")
        return self

    @model_validator(mode="after")
    def _something_to_pay(self) -> Self:
        """A purchase may be paid off; with free power too, costs of 0 could not be ranked."""
        free = any(price.purchase == 0 for price in self.prices.values())
        free_use = self.cost.usd_per_kwh == 0 and not self.cost.hosting_usd_per_kw_month
        hint = "Give cost.usd_per_kwh or cost.hosting_usd_per_kw_month above 0"
        check(not (free and free_use), "cost", "leaves nothing to pay for a GPU whose purchase is 0", hint)
        return self

    @property
    def origin(self) -> Origin:
        """Where the settings are from."""
        return self._origin

    def at(self, origin: Origin) -> Self:
        """The same comparison, from `origin`."""
        copy = self.model_copy()
        copy._origin = origin
        return copy


@dataclass(frozen=True)
class Candidate:
    """One row of a comparison. gpu_key: of the catalogue, or the name of the user's file."""

    label: str
    gpu_key: str
    scenario: Scenario


def load_comparison(path: Path, overrides: Mapping[str, Any] | None = None) -> Comparison:
    """Read the comparison file `path`. overrides: values for keys at its top. Raises ConfigError."""
    source = read_yaml(path)
    if not isinstance(source.data, dict):
        problem = f"must hold a section with keys, found {describe(source.data)}"
        hint = "A comparison needs model, workload, slo, and gpus or candidates"
        raise ConfigError(problem, file=path, line=1, hint=hint)
    origin = Origin(path, source.lines)
    data = {"name": path.stem, **source.data, **(overrides or {})}
    try:
        comparison = Comparison.model_validate(data).at(origin)
    except ValidationError as error:
        raise config_error(error, Comparison, origin) from None
    own_prices(comparison)  # an unknown GPU is told now rather than after hours of simulations
    return comparison


def candidates(comparison: Comparison) -> list[Candidate]:
    """Every candidate, in the order of the file, each once. Raises ConfigError for one that no engine would accept."""
    found: dict[str, Candidate] = {}
    for number, section in enumerate(_sections(comparison)):
        place: KeyPath = () if comparison.candidates is None else ("candidates", number)
        for candidate in _candidates_of(comparison, section, place):
            found.setdefault(candidate.label, candidate)
    return list(found.values())


def _sections(comparison: Comparison) -> tuple[CandidateSection, ...]:
    if comparison.candidates is not None:
        return comparison.candidates
    gpus = gpu_keys() if comparison.gpus == ALL else comparison.gpus
    return (CandidateSection.model_validate({"gpu": gpus}),)


def _candidates_of(comparison: Comparison, section: CandidateSection, place: KeyPath) -> Iterator[Candidate]:
    """place: of `section` in the file, () for the GPUs at its top."""
    models, engines = section.model or comparison.model, section.engine or comparison.engine
    dtypes = section.dtype or (None,)
    for model, gpu_name, engine, dtype in itertools.product(models, section.gpu, engines, dtypes):
        gpu = _load_gpu(comparison.origin, gpu_name, (*place, "gpu") if place else ("gpus",))
        for tp in section.tensor_parallel_size or _default_sizes(
            comparison.origin, model, gpu, place if section.model else ()
        ):
            for pp in section.pipeline_parallel_size:
                settings = {"model": model, "gpu": gpu_name, "engine": engine}
                layout: dict[str, Any] = {"tensor_parallel_size": tp, "pipeline_parallel_size": pp}
                if dtype is not None:
                    layout["dtype"] = dtype
                extra = _extra_label(comparison, section, model, engine, dtype)
                label = " ".join([gpu.key, f"TP{tp}", *([f"PP{pp}"] if pp > 1 else []), *extra])
                scenario = _scenario(comparison, label, settings, layout, section.set)
                yield Candidate(label, gpu.key, scenario)


def _extra_label(
    comparison: Comparison, section: CandidateSection, model: str, engine: str, dtype: str | None
) -> list[str]:
    """What else sets candidates of this comparison apart."""
    several_models = len(comparison.model) > 1 or section.model is not None
    several_engines = len(comparison.engine) > 1 or section.engine is not None
    words = [_short(model)] if several_models else []
    words += [_short(engine)] if several_engines else []
    words += [dtype] if dtype is not None else []
    return words + [f"{key.rsplit('.', 1)[-1]}={value}" for key, value in section.set.items()]


def _short(name: str) -> str:
    return Path(name).stem if looks_like_path(name) else name


def _default_sizes(origin: Origin, model: str, gpu: Gpu, place: KeyPath) -> list[int]:
    """Powers of two over which the model splits, up to a server's eight."""
    try:
        architecture = load_architecture(str(origin.resolve("model", model)) if looks_like_path(model) else model)
    except ConfigError as error:
        raise _placed(origin, error, (*place, "model")) from None
    sizes = valid_tensor_parallel_sizes(architecture, min(gpu.server_gpus, 8))
    return [size for size in sizes if size & (size - 1) == 0]


def _load_gpu(origin: Origin, name: str, place: KeyPath) -> Gpu:
    try:
        return load_gpu(str(origin.resolve("gpu", name)) if looks_like_path(name) else name)
    except ConfigError as error:
        raise _placed(origin, error, place) from None


def _placed(origin: Origin, error: ConfigError, place: KeyPath) -> ConfigError:
    """`error` with `place`, unless it names a file of its own."""
    return error if error.file is not None else origin.error(place, error.problem, error.hint)


def _scenario(
    comparison: Comparison,
    label: str,
    names: Mapping[str, str],
    layout: Mapping[str, Any],
    changes: Mapping[str, Any],
) -> Scenario:
    """The scenario of a candidate: one replica. Its errors name the lines of the comparison."""
    given = {key: value for key in SCENARIO_KEYS if (value := getattr(comparison, key)) is not None}
    given["replica"] = {**(comparison.replica or {}), **layout}
    # JSON is YAML, so that values keep their types on the way through the overrides.
    overrides = [f"{key}={json.dumps(value)}" for key, value in changes.items()]
    return scenario_from({"name": label, **names, **given}, overrides, comparison.origin)


def own_prices(comparison: Comparison) -> dict[str, GpuPriceSection]:
    """The comparison's own prices by key of the catalogue. Raises ConfigError for an unknown GPU."""
    found = {}
    for name, section in comparison.prices.items():
        try:
            found[load_gpu(name).key] = section
        except ConfigError as error:
            raise comparison.origin.error(("prices", name), error.problem, error.hint) from None
    return found
