"""An experiment: a scenario, what is varied in it, which figures are looked at. Read from `sweeps/lab/<name>.yaml`.

    title, question   one line, one paragraph
    look_for          list of sentences for the reader of the table
    scenario          content of a scenario file that every point starts from
    gpus              name -> {based_on: key of the catalogue, field: value ...}; a scenario's `gpu: name` means it
    parts             list of {name, set: {dotted.key: value}, vary: {axis: values}, columns: {header: summary path}}
    figure            list of panels {part, x, y, hue, kind: line | bar, log_x, log_y, y_label}

The values of an axis are {key: dotted.key, values: [...]}, or {label: {dotted.key: value, ...}, ...}. A part has a
point for each combination. A summary path names a figure of the summary, inner keys after a slash.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servecast.configs.overrides import Change, apply_changes
from servecast.hardware.errors import ConfigError, did_you_mean
from servecast.hardware.yaml_source import read_yaml
from servecast.sweeps.axes import Axis, Case, change, combinations

_FOLDER = Path(__file__).parent

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Part:
    """axes: by name. columns: header -> path in the summary."""

    name: str
    changes: Sequence[Change]
    axes: Mapping[str, Axis]
    columns: Mapping[str, str]


@dataclass(frozen=True)
class Point:
    """One scenario of an experiment. labels: axis -> label. settings: content of the scenario file."""

    part: Part
    labels: Mapping[str, Any]
    settings: Settings

    @property
    def slug(self) -> str:
        """Name for a file."""
        words = [self.part.name, *(f"{axis}-{label}" for axis, label in self.labels.items())]
        text = "_".join(words).lower()
        return "".join(letter if letter.isalnum() or letter in "_-." else "-" for letter in text)


@dataclass(frozen=True)
class Experiment:
    """What a page of the lab is made of; see the head of this file."""

    name: str
    title: str
    question: str
    look_for: Sequence[str]
    scenario: Settings
    gpus: Mapping[str, Settings]
    parts: Sequence[Part]
    figure: Sequence[Settings]

    def points(self) -> Iterator[Point]:
        """All points, part by part, the last axis fastest."""
        for part in self.parts:
            for combination in combinations(list(part.axes.values())):
                settings, _ = apply_changes(self.scenario, [*part.changes, *combination.changes])
                yield Point(part, combination.labels, settings)


def experiment_names() -> list[str]:
    return sorted(file.stem for file in _FOLDER.glob("*.yaml"))


def load_experiment(name: str) -> Experiment:
    """Raises ConfigError for an unknown name."""
    if name not in experiment_names():
        raise ConfigError(f"unknown experiment {name!r}", hint=did_you_mean(name, experiment_names()))
    data = read_yaml(_FOLDER / f"{name}.yaml").data
    return Experiment(
        name=name,
        title=data["title"],
        question=data["question"].strip(),
        look_for=data["look_for"],
        scenario=data["scenario"],
        gpus=data.get("gpus", {}),
        parts=[_part(part) for part in data["parts"]],
        figure=data["figure"],
    )


def _part(data: Mapping[str, Any]) -> Part:
    axes = {name: _axis(name, values) for name, values in data["vary"].items()}
    return Part(data["name"], _changes(data.get("set", {})), axes, data["columns"])


def _axis(name: str, values: Mapping[Any, Any]) -> Axis:
    cases = {value: {values["key"]: value} for value in values["values"]} if "key" in values else values
    return Axis(name, [Case({name: label}, _changes(settings)) for label, settings in cases.items()])


def _changes(settings: Settings) -> list[Change]:
    return [change(key, value, f"{key}={value}") for key, value in settings.items()]
