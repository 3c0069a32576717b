"""A measured run: what was run, as the content of a scenario file, and what came out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from servecast.hardware.errors import ConfigError
from servecast.model.lengths import EmpiricalLengths

# Name of a measured figure -> the key of the simulation's summary that it is held against. Times are in ms, throughput
# in output tokens/s, requests in requests/s.
METRICS: Mapping[str, str] = {
    "tpot": "mean_tpot_ms",
    "ttft": "mean_ttft_ms",
    "throughput": "output_throughput",
    "e2el": "mean_e2el_ms",
    "requests": "request_throughput",
    "tpot_p99": "p99_tpot_ms",
    "ttft_p50": "p50_ttft_ms",
    "ttft_p90": "p90_ttft_ms",
    "ttft_p99": "p99_ttft_ms",
    "e2el_p99": "p99_e2el_ms",
}

Settings = Mapping[str, Any]


@dataclass(frozen=True)
class MeasuredRun:
    """place: file and line, for people. settings: content of a scenario file, maybe without model, gpu or engine where
    the file does not name them. figures: names of METRICS -> measured. cells: the file's own words, by column.

    lengths: of the requests one by one, in place of those of `settings`. left_out: figures not to be compared -> why.
    fitted: figures that a number of the model was chosen by -> which number; all others are a test of it. unsettled:
    figures that follow from a setting that nobody stated -> which; their errors are shown, but count in no error band.
    problem: why the run cannot be simulated at all. aside: why it says nothing about runs of today, so that its errors
    are shown but count in no error band. note: what had to be assumed.
    """

    place: str
    settings: Settings
    figures: Mapping[str, float]
    cells: Mapping[str, str] = field(default_factory=dict)
    lengths: EmpiricalLengths | None = None
    left_out: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None
    fitted: Mapping[str, str] = field(default_factory=dict)
    unsettled: Mapping[str, str] = field(default_factory=dict)
    aside: str = ""
    note: str = ""

    @property
    def source(self) -> str:
        """Who measured, by the file's `source` column; else the file."""
        return self.cells.get("source") or self.cells.get("file", "")

    @property
    def compared(self) -> dict[str, float]:
        """The figures that are to be compared."""
        return {name: value for name, value in self.figures.items() if name not in self.left_out}


def positive(value: Any, key: str) -> float:
    """A measured figure or a size as a number above 0: an error relative to 0 says nothing. Raises ConfigError."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise ConfigError(f"must be a number above 0, found {value!r}", key=key) from None
    if not 0 < number < float("inf"):
        raise ConfigError(f"must be a number above 0, found {value!r}", key=key)
    return number


def with_settings(settings: Settings, more: Mapping[str, Any]) -> dict[str, Any]:
    """`settings` with dotted keys set on top; neither is changed."""
    changed = dict(settings)
    for dotted, value in more.items():
        section = changed
        *parents, last = dotted.split(".")
        for parent in parents:
            inner = section.get(parent)
            section[parent] = dict(inner) if isinstance(inner, Mapping) else {}
            section = section[parent]
        section[last] = value
    return changed
