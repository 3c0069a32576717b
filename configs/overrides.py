"""`--set key=value`: changes to a scenario from the command line."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from servecast.configs.fields import describe
from servecast.hardware.errors import ConfigError
from servecast.hardware.yaml_source import KeyPath, parse_yaml


def apply_overrides(data: Mapping[str, Any], overrides: Sequence[str]) -> tuple[dict[str, Any], dict[KeyPath, str]]:
    """A copy of `data` with `overrides` applied in order, and which key path each one set.

    Each is `dotted.key=value`; the value is read as YAML, so `null`, `true`, lists and `{a: 1}` work. Missing
    sections on the way are made. Raises ConfigError naming the override that cannot be applied.
    """
    changed: dict[str, Any] = copy.deepcopy(dict(data))
    applied: dict[KeyPath, str] = {}
    for text in overrides:
        path, value = _parse(text)
        _set(changed, path, value, text)
        # An earlier override of a key inside this one no longer counts.
        applied = {other: origin for other, origin in applied.items() if other[: len(path)] != path}
        applied[path] = text
    return changed, applied


def _parse(text: str) -> tuple[KeyPath, Any]:
    key, equals, value = text.partition("=")
    path = tuple(part.strip() for part in key.split("."))
    if not equals or not all(path):
        hint = "Write it as --set key=value, for example --set scheduler.max_num_seqs=64"
        raise ConfigError("is not of the form key=value", key=f"--set {text}", hint=hint)
    try:
        return path, parse_yaml(value, Path("--set")).data
    except ConfigError as error:
        verb = "is" if error.problem.startswith("broken YAML") else "cannot be used:"
        raise ConfigError(f"the value {verb} {error.problem}", key=f"--set {text}", hint=error.hint) from None


def _set(data: dict[str, Any], path: KeyPath, value: Any, text: str) -> None:
    section: Any = data
    for depth, part in enumerate(path[:-1]):
        inner = section.get(part)
        if inner is None:
            inner = section[part] = {}
        if not isinstance(inner, dict):
            found = f"{'.'.join(map(str, path[: depth + 1]))} is {describe(inner)}, not a section with keys"
            raise ConfigError(found, key=f"--set {text}")
        section = inner
    section[path[-1]] = value
