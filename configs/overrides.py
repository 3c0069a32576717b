"""Changes to a scenario: `--set key=value` from the command line, the axes of a sweep."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servecast.configs.fields import describe
from servecast.configs.origin import Origin, Setter
from servecast.hardware.errors import ConfigError
from servecast.hardware.yaml_source import KeyPath, parse_yaml


@dataclass(frozen=True)
class Change:
    """One new value of a scenario. path: the keys that lead to it. setter: what makes the change, for messages."""

    path: KeyPath
    value: Any
    setter: Setter


def apply_overrides(data: Mapping[str, Any], overrides: Sequence[str]) -> tuple[dict[str, Any], dict[KeyPath, Setter]]:
    """As `apply_changes`, for changes in text.

    Each is `dotted.key=value`; the value is read as YAML, so `null`, `true`, lists and `{a: 1}` work.
    """
    return apply_changes(data, [_parse(text) for text in overrides])


def apply_changes(data: Mapping[str, Any], changes: Sequence[Change]) -> tuple[dict[str, Any], dict[KeyPath, Setter]]:
    """A copy of `data` with `changes` applied in order, and what set each key path.

    Missing sections on the way are made. Raises ConfigError naming the change that cannot be applied.
    """
    changed: dict[str, Any] = copy.deepcopy(dict(data))
    applied: dict[KeyPath, Setter] = {}
    for change in changes:
        _set(changed, change)
        # An earlier change of a key inside this one no longer counts.
        applied = {other: setter for other, setter in applied.items() if other[: len(change.path)] != change.path}
        applied[change.path] = change.setter
    return changed, applied


def _parse(text: str) -> Change:
    key, equals, value = text.partition("=")
    path = tuple(part.strip() for part in key.split("."))
    if not equals or not all(path):
        hint = "Write it as --set key=value, for example --set scheduler.max_num_seqs=64"
        raise ConfigError("is not of the form key=value", key=f"--set {text}", hint=hint)
    try:
        return Change(path, parse_yaml(value, Path("--set")).data, text)
    except ConfigError as error:
        verb = "is" if error.problem.startswith("broken YAML") else "cannot be used:"
        raise ConfigError(f"the value {verb} {error.problem}", key=f"--set {text}", hint=error.hint) from None


def _set(data: dict[str, Any], change: Change) -> None:
    section: Any = data
    for depth, part in enumerate(change.path[:-1]):
        inner = section.get(part)
        if inner is None:
            inner = section[part] = {}
        if not isinstance(inner, dict):
            found = f"{'.'.join(map(str, change.path[: depth + 1]))} is {describe(inner)}, not a section with keys"
            setters = {change.path: change.setter}
            raise Origin(overrides=setters).error(change.path, found)
        section = inner
    # A copy: a later change may go into it, and the same value serves many points of a sweep.
    section[change.path[-1]] = copy.deepcopy(change.value)
