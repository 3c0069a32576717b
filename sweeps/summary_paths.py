"""Figures of a summary by their path: `p99_ttft_ms`, inner keys after a slash: `kv_usage/mean`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


def figure_at(figures: Mapping[str, Any], path: str) -> Any:
    """The figure at `path`; of a list its length, of counts by reason their sum. Raises KeyError if there is none."""
    value: Any = figures
    for key in path.split("/"):
        if not isinstance(value, Mapping):
            raise KeyError(path)
        value = value[key]
    if isinstance(value, list):
        return len(value)
    if isinstance(value, Mapping):
        if not all(isinstance(part, int) for part in value.values()):
            raise KeyError(path)
        return sum(value.values())
    return value


def flat(figures: Mapping[str, Any], separator: str = ".", prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Path, with `separator`, and value of everything in nested `figures`, sections too."""
    for key, value in figures.items():
        yield f"{prefix}{key}", value
        if isinstance(value, Mapping):
            yield from flat(value, separator, f"{prefix}{key}{separator}")
