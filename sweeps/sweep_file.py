"""The sweep file: a base scenario, axes to vary, and what to look at. docs/sweeps.md explains every key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from servecast.configs.fields import Bounds, Choices, Section, Switch, Text, describe, invalid
from servecast.configs.load import read_scenario
from servecast.configs.messages import config_error
from servecast.configs.origin import Origin, Place
from servecast.configs.overrides import Change, apply_changes, apply_overrides
from servecast.hardware.errors import ConfigError
from servecast.hardware.yaml_fields import Fields
from servecast.hardware.yaml_source import YamlSource, read_yaml
from servecast.sweeps.axes import Axis, change, read_axes
from servecast.sweeps.expressions import Expression, parse_expression

# Units of figures whose names have none: vLLM's own names, for the most part.
UNITS = {
    "duration": "s",
    "request_throughput": "req_per_s",
    "request_goodput": "req_per_s",
    "output_throughput": "tok_per_s",
    "total_token_throughput": "tok_per_s",
    "queue_time": "ms",
}

_HINT = "A sweep needs scenario and axes"


def _base(value: object) -> object:
    if not isinstance(value, (str, dict)) or not value:
        hint = "Write scenario: ../configs/quickstart.yaml, or the keys of a scenario below it"
        raise invalid(f"must be the path of a scenario file or a scenario, found {describe(value)}", hint)
    return value


def _mapping(value: object) -> object:
    if not isinstance(value, dict) or not value:
        raise invalid(f"must be a section with keys, found {'an empty one' if value == {} else describe(value)}")
    for key in value:
        if not isinstance(key, str):
            raise invalid(f"a key must be text, found {describe(key)}", key=str(key))
    return value


def _texts(value: object) -> object:
    return [value] if isinstance(value, str) else value


def _metrics(value: object) -> object:
    """Column -> figure; a list of figures gives the columns their names."""
    if isinstance(value, dict):
        return value
    listed = _texts(value)
    if not isinstance(listed, list) or not all(isinstance(item, str) for item in listed):
        hint = "Such as [p99_ttft_ms, kv_usage/mean], or {ttft: p99_ttft_ms}"
        raise invalid(f"must be a list of figures, or figures by column, found {describe(value)}", hint)
    return {column_of(item): item for item in listed}


def column_of(figure: str) -> str:
    """Name of the column of a figure of the summary, with its unit."""
    name, unit = figure.replace("/", "_"), UNITS.get(figure.split("/")[0])
    return name if unit is None else f"{name}_{unit}"


Mapped = Annotated[dict[str, Any], BeforeValidator(_mapping)]


class FigureSection(Section):
    """The figure of a sweep."""

    kind: Annotated[str, Choices(("lines", "heat_map"))] | None = Field(
        default=None, description="Default: lines; a heat map for two axes of numbers."
    )
    y: Annotated[tuple[Text, ...], BeforeValidator(_texts)] = Field(
        default=(), description="Columns to draw, a panel each. Default: the first metric."
    )
    x: Text | None = Field(default=None, description="Column along the bottom. Default: the last axis of numbers.")
    log_x: Switch = Field(default=False, description="Logarithmic scale along the bottom.")
    log_y: Switch = Field(default=False, description="Logarithmic scale of the figures.")


class SweepSection(Section):
    """A sweep as the user describes it."""

    name: Text | None = Field(default=None, description="Title of tables and figures. Default: the file's name.")
    scenario: Annotated[Any, BeforeValidator(_base)] = Field(
        description="Scenario that every point starts from: the path of a file, or its content.",
        json_schema_extra={"type": ["string", "object"]},
    )
    set: Mapped = Field(
        default_factory=dict, description="Changes to the scenario for all points: dotted key -> value."
    )
    axes: Mapped = Field(
        description="What is varied: dotted key -> values, or a name -> zip or cases. A point for each combination."
    )
    where: Annotated[tuple[Text, ...], BeforeValidator(_texts)] = Field(
        default=(), description="Expressions over axes and keys; points for which one is false are left out."
    )
    replicates: Annotated[int, Bounds(ge=1, le=1000)] = Field(
        default=1, description="Simulations of each point with different seeds, for means with 95 % intervals."
    )
    metrics: Annotated[dict[str, Text], BeforeValidator(_metrics)] | None = Field(
        default=None,
        description="Figures of the summary: a list, or column -> figure; inner keys after a slash. Default: a choice.",
        json_schema_extra={"type": ["array", "object"]},
    )
    derive: dict[str, Text] = Field(
        default_factory=dict, description="Further columns: name -> expression over axes, keys and metrics."
    )
    figure: FigureSection = Field(default=FigureSection(), description="How it is drawn.")


@dataclass(frozen=True)
class SweepFile:
    """A sweep file, read. settings, origin: the base scenario with `set` and --set applied, not yet validated."""

    source: YamlSource
    section: SweepSection
    settings: Mapping[str, Any]
    origin: Origin
    axes: Sequence[Axis]
    where: Sequence[Expression]
    derived: Mapping[str, Expression]

    @property
    def name(self) -> str:
        return self.section.name or self.source.file.stem

    def error(self, key: str, error: ConfigError) -> ConfigError:
        """`error`, which knows no file, as one about a key of this file."""
        return Fields(self.source, (), self.source.data).error(key, error.problem, error.hint)


def load_sweep(path: Path, overrides: Sequence[str] = ()) -> SweepFile:
    """Read the sweep file `path`; `overrides` (`dotted.key=value`) change its base scenario. Raises ConfigError."""
    source = read_yaml(path)
    if not isinstance(source.data, dict):
        found = "is empty" if source.data is None else f"must hold a section with keys, found {describe(source.data)}"
        raise ConfigError(found, file=path, hint=_HINT)
    if "workload" in source.data:
        raise ConfigError("is a scenario, not a sweep", file=path, hint=f"servecast run simulates it. {_HINT}")
    try:
        section = SweepSection.model_validate(source.data)
    except ValidationError as error:
        raise config_error(error, SweepSection, Origin(path, source.lines)) from None
    fields = Fields(source, (), source.data)
    axes = read_axes(fields.section("axes"))
    settings, origin = _base_settings(source, section, fields, overrides)
    _check_axes(axes, origin, path)
    where = [_expression(fields, "where", text) for text in section.where]
    derived = {name: _expression(fields, "derive", text) for name, text in section.derive.items()}
    return SweepFile(source, section, settings, origin, axes, where, derived)


def _base_settings(
    source: YamlSource, section: SweepSection, fields: Fields, overrides: Sequence[str]
) -> tuple[dict[str, Any], Origin]:
    """The base scenario with `set`, then the overrides."""
    if isinstance(section.scenario, str):
        try:
            data, origin = read_scenario(source.file.parent / Path(section.scenario).expanduser())
        except ConfigError as error:
            missing = error.problem == "no such file"
            raise (fields.error("scenario", f"no such file: {error.file}") if missing else error) from None
    else:
        lines = {path[1:]: line for path, line in source.lines.items() if path[:1] == ("scenario",)}
        data = {"name": section.name or source.file.stem, **section.scenario}
        origin = Origin(source.file, lines)
    fixed: list[Change] = [
        change(key, value, Place(source.file, source.line(("set", key)))) for key, value in section.set.items()
    ]
    data, placed = apply_changes(data, fixed)
    data, overridden = apply_overrides(data, overrides)
    return data, Origin(origin.file, origin.lines, {**placed, **overridden})


def _check_axes(axes: Sequence[Axis], origin: Origin, file: Path) -> None:
    """An axis would undo a `set` or --set of its key, or of one inside it."""
    names = {path: axis.name for axis in axes for path in axis.keys}
    for fixed in origin.overrides:
        varied = next((path for path in names if fixed[: len(path)] == path), None)
        if varied is not None:
            problem = f"is varied by axis {names[varied]!r} of {file}"
            raise origin.error(fixed, problem, "Leave it out, or change the axis")


def _expression(fields: Fields, key: str, text: str) -> Expression:
    try:
        return parse_expression(text)
    except ConfigError as error:
        raise fields.error(key, error.problem, error.hint) from None


def sweep_json_schema() -> dict[str, Any]:
    """JSON schema of the sweep file, for editors."""
    draft = "https://json-schema.org/draft/2020-12/schema"
    return {"$schema": draft, **SweepSection.model_json_schema(), "title": "servecast sweep"}
