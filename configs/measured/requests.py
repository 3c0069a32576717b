"""A run as one row a request: arrival, lengths, TTFT and E2EL, as CSV. It is replayed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from servecast.configs.measured.run import MeasuredRun, positive
from servecast.configs.trace_columns import normalise
from servecast.configs.traces import read_trace
from servecast.hardware.errors import ConfigError

Floats = npt.NDArray[np.float64]
# A line of the file and its cells by column.
Row = tuple[int, Mapping[str, str]]

# Time of a request -> names of its column and what makes them seconds.
_TIMES = {
    "ttft": {"ttft_s": 1.0, "ttft_ms": 1e-3, "ttft": 1.0},
    "e2el": {"e2e_s": 1.0, "e2el_s": 1.0, "latency_s": 1.0, "e2e_ms": 1e-3, "e2el_ms": 1e-3, "e2el": 1.0},
}


def is_request_table(names: Sequence[str]) -> bool:
    """Whether a header is that of such a file: it has both times of each request."""
    known = {normalise(name) for name in names}
    return all(known & set(columns) for columns in _TIMES.values())


def request_run(rows: Sequence[Row], file: Path) -> MeasuredRun:
    """The whole file as one run. Raises ConfigError for a row without usable numbers."""
    trace = read_trace(file)
    times = {metric: _seconds(rows, metric, file) for metric in _TIMES}
    _check_order(times, rows, file)
    cells = {"file": file.name, "line": "1"}
    settings = {"workload": {"num_requests": len(trace), "arrivals": {"process": "trace", "path": str(file.resolve())}}}
    if trace.arrival_s is None or any("sorted" in note for note in trace.notes):
        raise ConfigError("must be in the order of arrival", file=file)
    figures = request_figures(trace.arrival_s, trace.output_tokens, times["ttft"], times["e2el"])
    return MeasuredRun(str(file), settings, figures, cells)


def request_figures(
    arrival_s: Floats, output_tokens: npt.NDArray[np.int64], ttft_s: Floats, e2el_s: Floats
) -> dict[str, float]:
    """METRICS of requests, as `vllm bench serve` defines them. Requests of one token have no TPOT."""
    duration = float((arrival_s + e2el_s).max() - arrival_s.min())
    gaps = output_tokens - 1
    tpot = ((e2el_s - ttft_s)[gaps > 0] / gaps[gaps > 0]) * 1e3
    figures = {
        "ttft": float(ttft_s.mean()) * 1e3,
        "ttft_p50": float(np.percentile(ttft_s, 50)) * 1e3,
        "ttft_p90": float(np.percentile(ttft_s, 90)) * 1e3,
        "ttft_p99": float(np.percentile(ttft_s, 99)) * 1e3,
        "e2el": float(e2el_s.mean()) * 1e3,
        "e2el_p99": float(np.percentile(e2el_s, 99)) * 1e3,
        "requests": len(arrival_s) / duration,
        "throughput": float(output_tokens.sum()) / duration,
    }
    if len(tpot):
        figures |= {"tpot": float(tpot.mean()), "tpot_p99": float(np.percentile(tpot, 99))}
    return figures


def _check_order(times: Mapping[str, Floats], rows: Sequence[Row], file: Path) -> None:
    """No answer ends before its first token."""
    wrong = np.flatnonzero(times["e2el"] < times["ttft"])
    if len(wrong):
        first = int(wrong[0])
        e2el, ttft = (times[metric][first] for metric in ("e2el", "ttft"))
        problem = f"ends after {e2el:g} s, before its first token at {ttft:g} s"
        hint = f"{len(wrong)} of {len(rows)} rows are so. Both times count from the arrival"
        raise ConfigError(problem, file=file, line=rows[first][0], hint=hint)


def _seconds(rows: Sequence[Row], metric: str, file: Path) -> Floats:
    names = {normalise(name): name for name in rows[0][1]}
    column = next(known for known in _TIMES[metric] if known in names)
    values = []
    for line, row in rows:
        try:
            values.append(positive(row[names[column]], names[column]) * _TIMES[metric][column])
        except ConfigError as error:
            raise ConfigError(error.problem, file=file, line=line, key=error.key) from None
    return np.array(values)
