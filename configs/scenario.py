"""The scenario: one validated YAML file. `load.py` reads it, `docs/scenario.md` explains every key.

The sections hold what the user wrote and the defaults for the rest. Names of models, GPUs, engines and length
profiles are looked up later, when the simulation's parameters are built.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import Field, PrivateAttr, field_validator, model_validator

from servecast.configs.arrival_sections import ArrivalSection, TraceSection
from servecast.configs.engine_sections import FleetSection, ReplicaSection, SchedulerSection
from servecast.configs.fields import Bounds, NotNegative, Section, Switch, Text, check, invalid
from servecast.configs.length_sections import LengthsSection
from servecast.configs.origin import Origin
from servecast.configs.request_sections import CohortsSection, PriorityShares, PromptsSection, TenantShares
from servecast.hardware.errors import ConfigError
from servecast.model.slo import Slo, parse_slo

DEFAULT_ENGINE = "vllm-0.19"
DEFAULT_NUM_REQUESTS = 1000

# Keys whose value may be a path, relative to the scenario file.
PATH_KEYS = (
    "model",
    "gpu",
    "engine",
    "workload.arrivals.path",
    "workload.lengths.profile",
    "workload.lengths.trace.path",
)


def _all_defaults(description: str) -> Any:
    """A section that may be left out, or left empty: all its keys have defaults."""
    # Validated like a given value, so that the section is compiled as part of the scenario only.
    return Field(default=None, validate_default=True, description=description, json_schema_extra={"default": {}})


class WorkloadSection(Section):
    """The traffic: how many requests, when they arrive and how long they are."""

    # A request takes about 0.8 KB: more than the bound would not fit a large host.
    num_requests: Annotated[int, Bounds(ge=1, le=100_000_000)] | None = Field(
        default=None,
        description=f"Requests to simulate. Default: all of a trace, else {DEFAULT_NUM_REQUESTS}.",
    )
    arrivals: ArrivalSection
    lengths: LengthsSection | None = Field(
        default=None, description="How long prompts and outputs are. A replayed trace brings its own."
    )

    prompts: PromptsSection | None = Field(
        default=None, description="What prompts have in common, for the prefix cache. Default: nothing."
    )
    priorities: PriorityShares | None = Field(
        default=None,
        description="Priority -> share of the requests that have it; lower values go first. Default: 0.",
        json_schema_extra={"propertyNames": {"pattern": "^-?[0-9]+$"}},
    )
    tenants: TenantShares | None = Field(
        default=None, description="Name -> share of the requests that are this tenant's. Default: no tenants."
    )

    @model_validator(mode="after")
    def _lengths_from_somewhere(self) -> Self:
        known = self.lengths is not None or isinstance(self.arrivals, TraceSection)
        hint = "Give lengths: {profile: azure-conv-2023}, or both prompt and output"
        check(known, "lengths", "is missing: only a replayed trace brings its own", hint)
        return self

    @property
    def request_count(self) -> int | None:
        """Requests to simulate; None means as many as the trace holds."""
        if self.num_requests is None and not isinstance(self.arrivals, TraceSection):
            return DEFAULT_NUM_REQUESTS
        return self.num_requests


class PriceSection(Section):
    """What a GPU costs, in place of the price list's figure."""

    usd_per_gpu_hour: NotNegative = Field(description="USD for one GPU for an hour.")
    source: Text = Field(default="the scenario", description="Where the price is from, for outputs.")


class Scenario(Section):
    """One simulation as the user describes it."""

    name: Text = Field(default="scenario", description="Title in tables and reports. Default: the file's name.")
    model: Text = Field(description="Model: a catalogue key, or the path of a Hugging Face config.json.")
    gpu: Text = Field(description="GPU: a catalogue key or alias, or the path of a YAML file.")
    engine: Text = Field(default=DEFAULT_ENGINE, description="Engine profile: a key, or the path of a YAML file.")
    replica: ReplicaSection = _all_defaults("One engine instance and its GPUs.")
    scheduler: SchedulerSection = _all_defaults("What the engine does in each step.")
    fleet: FleetSection = _all_defaults("The replicas behind one router.")
    workload: WorkloadSection = Field(description="The traffic.")
    slo: Text | None = Field(
        default=None, description="Latency limits, such as ttft:p99<=500ms tpot:p95<=50ms. Default: none."
    )
    cohorts: CohortsSection | None = Field(
        default=None, description="Classes of requests to report by themselves. Default: none."
    )
    price: PriceSection | None = Field(
        default=None, description="What a GPU costs. Default: the on-demand price of the price list, with its date."
    )
    seed: Annotated[int, Bounds(ge=0, le=2**63 - 1)] = Field(
        default=0, description="Start of all random numbers, 0 or more."
    )
    coast: Switch = Field(
        default=True,
        description="Jump over runs of equal decode steps: makes the simulation faster, changes no result.",
    )

    _origin: Origin = PrivateAttr(default_factory=Origin)

    @field_validator("replica", "scheduler", "fleet", mode="before")
    @classmethod
    def _empty_is_default(cls, value: object) -> object:
        return {} if value is None else value

    @model_validator(mode="after")
    def _admission_by_slo_has_one(self) -> Self:
        by_slo = self.scheduler.admission == "slo"
        limits = {} if self.slo is None else parse_slo(self.slo).request_limits_s
        hint = "Give slo: ttft:p99<=500ms, for one"
        check(not by_slo or "ttft" in limits, "slo", "needs a limit of ttft: scheduler.admission is slo", hint)
        return self

    @model_validator(mode="after")
    def _deadlines_come_from_the_slo(self) -> Self:
        limits = {} if self.slo is None else parse_slo(self.slo).request_limits_s
        known = self.scheduler.policy != "edf" or bool({"ttft", "e2el"} & set(limits))
        hint = "Give slo: ttft:p99<=500ms, for one"
        check(known, "slo", "needs a limit of ttft or e2el: deadlines of scheduler.policy edf come from it", hint)
        return self

    @model_validator(mode="after")
    def _cohorts_by_tenant_have_some(self) -> Self:
        known = self.cohorts is None or self.cohorts.by != "tenant" or self.workload.tenants is not None
        check(known, "cohorts", "by tenant needs workload.tenants", "Such as tenants: {free: 3, paid: 1}")
        return self

    @field_validator("slo")
    @classmethod
    def _readable_slo(cls, text: str | None) -> str | None:
        try:
            return None if text is None else str(parse_slo(text))
        except ConfigError as error:
            raise invalid(error.problem, error.hint) from None

    @property
    def origin(self) -> Origin:
        """Where the settings are from: for errors with file and line, and for relative paths."""
        return self._origin

    @cached_property
    def slo_limits(self) -> Slo | None:
        """`slo`, read."""
        return None if self.slo is None else parse_slo(self.slo)

    def at(self, origin: Origin) -> Self:
        """The same scenario, from `origin`."""
        copy = self.model_copy()
        copy._origin = origin
        return copy

    def effective(self) -> dict[str, Any]:
        """Every setting with its default filled in, as plain data; the order is always that of the schema.

        Alternatives that were not taken (`trace` beside a `profile`) are left out.
        """
        settings = self.model_dump(mode="json")
        workload = settings["workload"]
        workload["num_requests"] = self.workload.request_count
        settings["workload"] = {
            key: _without_none(value) for key, value in workload.items() if key != "lengths" or value is not None
        }
        return settings

    def defaulted_keys(self) -> tuple[str, ...]:
        """Dotted keys of `effective()` that nobody set, in its order."""
        return tuple(_defaulted(self, self.effective(), "", all_unset=False))

    def portable(self, folder: Path | None = None) -> dict[str, Any]:
        """As `effective()`, with absolute paths: it means the same in any folder.

        folder: where it will lie; paths into it become relative, so that it can be moved as a whole.
        """
        settings = self.effective()
        for key, file in self.files().items():
            *parents, last = key.split(".")
            section = settings
            for parent in parents:
                section = section[parent]
            if folder is not None and file.is_relative_to(folder.resolve()):
                file = file.relative_to(folder.resolve())
            section[last] = str(file)
        return settings

    def files(self) -> dict[str, Path]:
        """The absolute path of every file that the settings name, by dotted key; it may not exist."""
        settings = self.effective()
        found = {key: _value(settings, key) for key in PATH_KEYS}
        return {
            key: self.origin.resolve(key, value).resolve()
            for key, value in found.items()
            if value is not None and (key.endswith("path") or looks_like_path(value))
        }

    def to_yaml(self, folder: Path | None = None) -> str:
        """`portable()` as the text of a scenario file."""
        # Imported here: reading a scenario needs no YAML writer, and start-up time counts.
        import yaml

        return yaml.safe_dump(self.portable(folder), sort_keys=False, allow_unicode=True, width=110)


def _without_none(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    return {key: _without_none(inner) for key, inner in value.items() if inner is not None}


def _defaulted(section: Section, settings: dict[str, Any], prefix: str, *, all_unset: bool) -> Iterator[str]:
    for name, setting in settings.items():
        value, unset = getattr(section, name), all_unset or name not in section.model_fields_set
        if isinstance(value, Section):
            yield from _defaulted(value, setting, f"{prefix}{name}.", all_unset=unset)
        elif unset:
            yield f"{prefix}{name}"


def _value(settings: dict[str, Any], key: str) -> Any:
    value: Any = settings
    for part in key.split("."):
        value = None if value is None else value.get(part)
    return value


def looks_like_path(value: str) -> bool:
    """Whether `model`, `gpu`, `engine` or `profile` names a file rather than a catalogue key."""
    return value.startswith((".", "/", "~")) or Path(value).suffix in (".yaml", ".yml", ".json")


def scenario_json_schema() -> dict[str, Any]:
    """JSON schema of the scenario file, for editors."""
    draft = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": draft, **Scenario.model_json_schema(), "title": "servecast scenario"}
