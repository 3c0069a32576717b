"""The axes of a sweep file: what is varied, and under which labels. docs/sweeps.md shows every form."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from servecast.configs.fields import describe
from servecast.configs.origin import Place, Setter
from servecast.configs.overrides import Change
from servecast.hardware.yaml_fields import Fields
from servecast.hardware.yaml_source import KeyPath

_RANGE_KEYS = ("from", "to", "step", "points", "log", "whole")
_MOST_VALUES = 10_000
# Steps like 0.1 do not add up exactly.
_TOLERANCE = 1e-9
_FORMS = (
    "Write a list of values, {from, to, step}, {from, to, points}, {zip: {key: values}} or "
    "{cases: {label: {key: value}}}"
)


@dataclass(frozen=True)
class Case:
    """One place on an axis. labels: by column of the table. changes: to the scenario."""

    labels: Mapping[str, Any]
    changes: Sequence[Change]


@dataclass(frozen=True)
class Axis:
    """keys: the dotted keys that it changes."""

    name: str
    cases: Sequence[Case]

    @property
    def keys(self) -> set[KeyPath]:
        return {change.path for case in self.cases for change in case.changes}


@dataclass(frozen=True)
class Combination:
    """One case of each axis."""

    labels: Mapping[str, Any]
    changes: Sequence[Change]


def combinations(axes: Sequence[Axis]) -> Iterator[Combination]:
    """All of them, the last axis fastest."""
    for cases in itertools.product(*(axis.cases for axis in axes)):
        labels = {name: label for case in cases for name, label in case.labels.items()}
        yield Combination(labels, [change for case in cases for change in case.changes])


def size(axes: Sequence[Axis]) -> int:
    """Number of combinations."""
    return math.prod(len(axis.cases) for axis in axes)


def change(key: str, value: Any, setter: Setter) -> Change:
    """The change of a dotted key."""
    return Change(tuple(key.split(".")), value, setter)


def read_axes(fields: Fields) -> list[Axis]:
    """The axes of the mapping `fields` (name -> values). Raises ConfigError with file, line and key."""
    columns = _columns(fields)
    axes = [_axis(fields, name, columns) for name in fields.values]
    _check_apart(fields, axes)
    return axes


def _columns(fields: Fields) -> dict[str, str]:
    """Dotted key -> column: its last word, or all of it where two keys end in the same."""
    keys = [key for name, value in fields.values.items() for key in _keys(name, value)]
    words = [key.rsplit(".", 1)[-1] for key in keys]
    return {key: word if words.count(word) == 1 else key for key, word in zip(keys, words, strict=True)}


def _keys(name: str, value: Any) -> list[str]:
    """Columns that the axis wants, before they are shortened."""
    zipped = value.get("zip") if isinstance(value, dict) else None
    return [str(key) for key in zipped] if isinstance(zipped, dict) else [name]


def _axis(fields: Fields, name: str, columns: Mapping[str, str]) -> Axis:
    value = fields.values[name]
    if isinstance(value, list):
        return Axis(name, _listed(fields, name, columns[name]))
    if isinstance(value, dict) and "zip" in value:
        return Axis(name, _zipped(fields.section(name), columns))
    if isinstance(value, dict) and "cases" in value:
        return Axis(name, _cases(fields.section(name), name))
    if isinstance(value, dict) and "from" in value:
        setter = _place(fields, name)
        numbers = _range(fields.section(name))
        return Axis(name, [Case({columns[name]: number}, [change(name, number, setter)]) for number in numbers])
    raise fields.error(name, f"must be the values of an axis, found {describe(value)}", _FORMS)


def _listed(fields: Fields, name: str, column: str) -> list[Case]:
    values = _values(fields, name)
    return [
        Case({column: _label(value)}, [change(name, value, _place(fields, name, number))])
        for number, value in enumerate(values)
    ]


def _values(fields: Fields, name: str) -> list[Any]:
    """The list under `name`."""
    values = fields.values[name]
    if not isinstance(values, list) or not values:
        found = "an empty list" if values == [] else describe(values)
        raise fields.error(name, f"must be a list of values, found {found}", "Such as [1, 2, 4]")
    texts = [json.dumps(value, sort_keys=True, default=str) for value in values]
    for number, text in enumerate(texts):
        if text in texts[:number]:
            raise fields.error(name, f"holds {text} twice")
    return values


def _zipped(section: Fields, columns: Mapping[str, str]) -> list[Case]:
    section.only(("zip",))
    keys = section.section("zip")
    if not keys.values:
        raise section.error("zip", "must hold keys with values", "Such as zip: {gpu: [l40s, h100], seed: [1, 2]}")
    lists = {}
    for key, values in keys.values.items():
        if not isinstance(values, list) or not values:
            raise keys.error(key, f"must be a list of values, found {describe(values)}")
        lists[key] = values
    lengths = {key: len(values) for key, values in lists.items()}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{count} of {key}" for key, count in lengths.items())
        raise section.error("zip", f"must hold lists of one length, found {found}")
    return [
        Case(
            {columns[key]: _label(values[number]) for key, values in lists.items()},
            [change(key, values[number], _place(keys, key, number)) for key, values in lists.items()],
        )
        for number in range(next(iter(lengths.values())))
    ]


def _cases(section: Fields, name: str) -> list[Case]:
    section.only(("cases",))
    if not name.isidentifier():
        raise section.error("cases", f"the name of their axis is a column: letters, digits and _, found {name!r}")
    labels = section.section("cases")
    if not labels.values:
        raise section.error("cases", "must hold labels with {key: value} each")
    cases = []
    for label in labels.values:
        inner = labels.section(label)
        changes = [change(key, value, _place(inner, key)) for key, value in inner.values.items()]
        cases.append(Case({name: label}, changes))
    return cases


def _range(section: Fields) -> list[int | float]:
    """Numbers from `from` to `to`, both included if the steps hit it."""
    section.only(_RANGE_KEYS)
    first, last = section.number("from", zero=True), section.number("to", zero=True)
    if last <= first:
        raise section.error("to", f"must be above from, which is {first:g}, found {last:g}")
    if section.has("step") == section.has("points"):
        raise section.error("step", "either step or points must be given")
    numbers = _stepped(section, first, last) if section.has("step") else _spaced(section, first, last)
    if section.has("whole") and section.flag("whole"):
        return list(dict.fromkeys(round(number) for number in numbers))
    # Twelve digits: 0.1 + 0.2 is 0.3 to whoever wrote it.
    rounded = [float(f"{number:.12g}") for number in numbers]
    return [int(number) if number.is_integer() else number for number in rounded]


def _stepped(section: Fields, first: float, last: float) -> list[float]:
    step = section.number("step")
    if section.has("log"):
        raise section.error("log", "belongs to points, not to step")
    steps = int((last - first) / step + _TOLERANCE)
    if steps >= _MOST_VALUES:
        raise section.error("step", f"makes {steps + 1:,} values; at most {_MOST_VALUES:,}")
    return [first + number * step for number in range(steps + 1)]


def _spaced(section: Fields, first: float, last: float) -> list[float]:
    points = section.count("points")
    if not 2 <= points <= _MOST_VALUES:
        raise section.error("points", f"must be from 2 to {_MOST_VALUES}, found {points}")
    shares = [number / (points - 1) for number in range(points)]
    if not (section.has("log") and section.flag("log")):
        return [first + share * (last - first) for share in shares]
    if first == 0:
        raise section.error("from", "must be above 0 for a range with log: true, found 0")
    return [first * (last / first) ** share for share in shares]


def _label(value: Any) -> Any:
    """`value` as it stands in a table: a section is its text."""
    if isinstance(value, (dict, list)):
        return json.dumps(value).replace('"', "")
    return value


def _place(fields: Fields, *keys: str | int) -> Place:
    return Place(fields.source.file, fields.source.line((*fields.path, *keys)))


def _check_apart(fields: Fields, axes: Sequence[Axis]) -> None:
    """No axis may change what another one changes, or a section around it."""
    for number, axis in enumerate(axes):
        for other in axes[:number]:
            for path, earlier in itertools.product(axis.keys, other.keys):
                shorter = min(len(path), len(earlier))
                if path[:shorter] == earlier[:shorter]:
                    problem = f"changes {'.'.join(map(str, path))}, which axis {other.name!r} changes too"
                    raise fields.error(axis.name, problem, "Put them into one axis, with zip or cases")
