"""Two runs side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from servecast.reports.block_bootstrap import change
from servecast.reports.diff import Change, Diff, figure_row, figures_table, settings_diff
from servecast.reports.stored_run import StoredRun, read_requests
from servecast.reports.units import MS, REQUESTS_PER_S, SHARE, TOKENS_PER_S, Unit

_COUNTED: Mapping[str, tuple[str, Unit]] = {
    "request_throughput": ("request throughput", REQUESTS_PER_S),
    "request_goodput": ("request goodput", REQUESTS_PER_S),
    "output_throughput": ("output throughput", TOKENS_PER_S),
    "utilization": ("time in which a step runs", SHARE),
    "recompute_ratio": ("tokens computed again", SHARE),
}
_BLOCKS_NOTE = (
    "Intervals: block bootstrap over the requests of each run. They cover chance in this traffic, not the error of the "
    "model."
)
_PAIRED_NOTE = "Both runs are sent the same requests (same workload and seed), so the same blocks are compared."


def diff_runs(a: StoredRun, b: StoredRun) -> Diff:
    """`b` held against `a`."""
    paired = all(a.scenario[key] == b.scenario[key] for key in ("workload", "seed"))
    versions = [run.summary["provenance"]["version"] for run in (a, b)]
    notes = [_BLOCKS_NOTE, *([_PAIRED_NOTE] if paired else [])]
    if versions[0] != versions[1]:
        notes.append(f"A is of servecast {versions[0]}, B of {versions[1]}.")
    rows = [*_latencies(a, b, paired=paired), *_counted(a, b)]
    return Diff(settings_diff(a.scenario, b.scenario), figures_table(rows), notes)


def _latencies(a: StoredRun, b: StoredRun, *, paired: bool) -> Iterator[dict[str, Any]]:
    columns = ["ttft_ms", "tpot_ms", "e2el_ms", "queue_ms"]
    before, after = (read_requests(run, columns) for run in (a, b))
    for column in columns:
        name = column.removesuffix("_ms")
        for statistic, percentile in (("p50", 50), ("p99", 99)):
            found = change(
                _values(before, column),
                _values(after, column),
                lambda values, percentile=percentile: float(np.percentile(values, percentile)),  # type: ignore[misc]
                paired=paired,
            )
            yield figure_row(f"{'queue time' if name == 'queue' else name.upper()} {statistic}", found, MS)


def _values(frame: pd.DataFrame, column: str) -> Any:
    return frame[column].to_numpy(dtype=np.float64)


def _counted(a: StoredRun, b: StoredRun) -> Iterator[dict[str, Any]]:
    for key, (name, unit) in _COUNTED.items():
        before, after = a.summary[key], b.summary[key]
        if before is not None and after is not None and (before or after):
            yield figure_row(name, Change(before, after), unit)
