"""Two runs side by side: settings that differ, figures that moved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from servecast.reports.block_bootstrap import Change, change
from servecast.reports.settings import flat_settings, shown
from servecast.reports.stored_run import StoredRun, read_requests
from servecast.reports.tables import Column, Table
from servecast.reports.units import MS, PERCENT, REQUESTS_PER_S, SHARE, TOKENS_PER_S, Unit

_COUNTED: Mapping[str, tuple[str, Unit]] = {
    "request_throughput": ("request throughput", REQUESTS_PER_S),
    "request_goodput": ("request goodput", REQUESTS_PER_S),
    "output_throughput": ("output throughput", TOKENS_PER_S),
    "utilization": ("time in which a step runs", SHARE),
    "recompute_ratio": ("tokens computed again", SHARE),
}
_SETTING_COLUMNS = (Column("key", "setting"), Column("a", "A"), Column("b", "B"))
_METRIC_COLUMNS = (
    Column("figure", "figure"),
    Column("a", "A"),
    Column("b", "B"),
    Column("change", "change", PERCENT),
    Column("interval", "95 % interval of B - A"),
    Column("moved", "moved"),
)


@dataclass(frozen=True)
class Diff:
    """settings: those that differ. figures: before, after and change. notes: what to know of them."""

    settings: Table
    figures: Table
    notes: tuple[str, ...]

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "settings": [dict(row) for row in self.settings.rows],
            "figures": [dict(row) for row in self.figures.rows],
            "notes": list(self.notes),
        }


def settings_diff(a: Mapping[str, Any], b: Mapping[str, Any]) -> Table:
    """Effective settings that are not alike; "-" where one side has no such setting."""
    left, right = dict(flat_settings(a)), dict(flat_settings(b))
    rows = [
        {"key": key, "a": _side(left, key), "b": _side(right, key)}
        for key in dict.fromkeys([*left, *right])
        if left.get(key, ...) != right.get(key, ...)
    ]
    return Table("settings-that-differ", "Settings that differ", _SETTING_COLUMNS, rows)


def _side(settings: Mapping[str, Any], key: str) -> str:
    return shown(settings[key]) if key in settings else "-"


def diff_runs(a: StoredRun, b: StoredRun) -> Diff:
    """`b` held against `a`."""
    paired = _same_traffic(a, b)
    rows = [*_latencies(a, b, paired=paired), *_counted(a, b)]
    notes = [
        "Intervals: block bootstrap over the requests of each run. They cover chance in this traffic, not the error of "
        "the model."
    ]
    if paired:
        notes.append(
            "Both runs answer the same requests (same workload and seed), so they are compared request by request."
        )
    versions = [run.summary["provenance"]["version"] for run in (a, b)]
    if versions[0] != versions[1]:
        notes.append(f"A is of servecast {versions[0]}, B of {versions[1]}.")
    figures = Table("figures", "Figures", _METRIC_COLUMNS, rows)
    return Diff(settings_diff(a.scenario, b.scenario), figures, tuple(notes))


def _same_traffic(a: StoredRun, b: StoredRun) -> bool:
    return all(a.scenario[key] == b.scenario[key] for key in ("workload", "seed"))


def _latencies(a: StoredRun, b: StoredRun, *, paired: bool) -> Iterator[dict[str, Any]]:
    columns = ["ttft_ms", "tpot_ms", "e2el_ms", "queue_ms"]
    before, after = (read_requests(run.folder, columns) for run in (a, b))
    for column in columns:
        name = column.removesuffix("_ms")
        for statistic, percentile in (("p50", 50), ("p99", 99)):
            found = change(
                _values(before, column),
                _values(after, column),
                lambda values, percentile=percentile: float(np.percentile(values, percentile)),  # type: ignore[misc]
                paired=paired,
            )
            yield _row(f"{'queue time' if name == 'queue' else name.upper()} {statistic}", found, MS)


def _values(frame: pd.DataFrame, column: str) -> Any:
    return frame[column].to_numpy(dtype=np.float64)


def _counted(a: StoredRun, b: StoredRun) -> Iterator[dict[str, Any]]:
    for key, (name, unit) in _COUNTED.items():
        before, after = a.summary[key], b.summary[key]
        if before is not None and after is not None and (before or after):
            yield _row(name, Change(before, after, None, None), unit)


def _row(name: str, found: Change, unit: Unit) -> dict[str, Any]:
    change_percent = (found.after / found.before - 1) * 100 if found.before else None
    interval = None
    if found.low is not None and found.high is not None:
        interval = f"{_signed(unit, found.low)} to {_signed(unit, found.high)}"
    return {
        "figure": f"{name} ({unit.symbol})",
        "a": unit.text(found.before),
        "b": unit.text(found.after),
        "change": change_percent,
        "interval": interval,
        "moved": found.moved,
    }


def _signed(unit: Unit, value: float) -> str:
    return f"+{unit.text(value)}" if value > 0 else unit.text(value)
