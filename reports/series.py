"""A run over time, in at most MOST_BINS rows however long it was: what its figures over time are drawn from."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from servecast.model.simulation import SimulationResult

Floats = NDArray[np.float64]

MOST_BINS = 1000


class _Bins:
    """Equal bins of time, from 0 to the end of the last step."""

    def __init__(self, end_s: float, count: int) -> None:
        self.edges_s = np.linspace(0.0, end_s, count + 1)
        self.width_s = end_s / count

    def totals(self, starts_s: Floats, ends_s: Floats, amounts: Floats) -> Floats:
        """Amounts that come evenly between their start and their end, by bin; the intervals must not overlap."""
        times = np.column_stack([starts_s, ends_s]).ravel()
        sums = np.column_stack([np.zeros(len(amounts)), amounts]).ravel().cumsum()
        return np.diff(np.interp(self.edges_s, times, sums, left=0.0))

    def highest(self, starts_s: Floats, ends_s: Floats, values: Floats) -> Floats:
        """The largest value in each bin in which something begins or ends; 0 in the others."""
        most = np.zeros(len(self.edges_s) - 1)
        for times in (starts_s, ends_s):
            np.maximum.at(most, self._index(times), values)
        return most

    def counts(self, times_s: Floats) -> Floats:
        return np.bincount(self._index(times_s), minlength=len(self.edges_s) - 1).astype(np.float64)

    def _index(self, times_s: Floats) -> NDArray[np.int64]:
        last = len(self.edges_s) - 2
        return np.minimum((times_s / self.width_s).astype(np.int64), last) if self.width_s else np.zeros(0, np.int64)


def series_frame(result: SimulationResult, most_bins: int = MOST_BINS) -> pd.DataFrame:
    """One row a bin of time, all replicas together.

    time_s: begin of the bin; width_s. prefill_tokens_per_s, decode_tokens_per_s: computed. prefill_step_share,
    decode_step_share: of the replicas' time, in steps with prompt tokens and in those without; the rest is idle.
    waiting, running: requests, mean over the bin (and `_max`: sum over the replicas of each one's most). kv_usage,
    kv_usage_max: share of the pools. preemptions: in the bin. recompute_ratio: recomputed over new tokens of the last
    500 steps, mean over the replicas' steps.
    """
    steps = result.steps
    lengths = steps["count"] * steps["duration_s"] + steps["slope_s"] * steps["count"] * (steps["count"] - 1) / 2
    ends = steps["start_s"] + lengths
    end_s = float(ends.max()) if len(ends) else 0.0
    count = max(1, min(most_bins, len(ends)))
    bins = _Bins(end_s, count)
    columns = {name: np.zeros(count) for name in _COLUMNS}
    for replica in range(result.parameters.replicas):
        here = steps["replica"] == replica
        if here.any():
            _add_replica(columns, bins, result, here, lengths[here])
    columns["preemptions"] = bins.counts(result.interruptions["preempted_s"])
    return pd.DataFrame({"time_s": bins.edges_s[:-1], "width_s": bins.width_s, **_rates(columns, bins, result)})


# Sums over the replicas; of time-weighted values, times the seconds.
_COLUMNS = (
    "prefill_tokens",
    "decode_tokens",
    "prefill_steps_s",
    "decode_steps_s",
    "waiting_s",
    "waiting_max",
    "running_s",
    "running_max",
    "used_blocks_s",
    "used_blocks_max",
    "recompute_ratio_s",
)


def _add_replica(
    columns: dict[str, Floats], bins: _Bins, result: SimulationResult, here: NDArray[np.bool_], lengths: Floats
) -> None:
    steps = {name: column[here] for name, column in result.steps.items()}
    starts, ends = steps["start_s"], steps["start_s"] + lengths
    chunks = steps["chunks"] > 0
    # A run of steps is recorded with the blocks at its end; on the way there each decode opens one in block_size steps.
    opened = (steps["count"] - 1) * steps["decodes"] / (2 * result.memory.block_size)
    amounts = {
        "prefill_tokens": steps["prefill_tokens"],
        "decode_tokens": steps["decodes"] * steps["count"],
        "prefill_steps_s": lengths * chunks,
        "decode_steps_s": lengths * ~chunks,
        "waiting_s": steps["waiting"] * lengths,
        "running_s": steps["running"] * lengths,
        "used_blocks_s": (steps["used_blocks"] - opened) * lengths,
        "recompute_ratio_s": steps["recompute_ratio"] * lengths,
    }
    for name, amount in amounts.items():
        columns[name] += bins.totals(starts, ends, amount)
    for name in ("waiting", "running", "used_blocks"):
        # Inside a run of steps that spans several bins the mean is all there is.
        mean = bins.totals(starts, ends, amounts[f"{name}_s"]) / (bins.width_s or 1.0)
        columns[f"{name}_max"] += np.maximum(bins.highest(starts, ends, steps[name]), mean)


def _rates(columns: dict[str, Floats], bins: _Bins, result: SimulationResult) -> dict[str, Floats]:
    width, replicas = bins.width_s or 1.0, result.parameters.replicas
    blocks = result.memory.sequence_pool_blocks * replicas
    busy = columns["prefill_steps_s"] + columns["decode_steps_s"]
    return {
        "prefill_tokens_per_s": columns["prefill_tokens"] / width,
        "decode_tokens_per_s": columns["decode_tokens"] / width,
        "prefill_step_share": columns["prefill_steps_s"] / (width * replicas),
        "decode_step_share": columns["decode_steps_s"] / (width * replicas),
        "waiting": columns["waiting_s"] / width,
        "waiting_max": columns["waiting_max"],
        "running": columns["running_s"] / width,
        "running_max": columns["running_max"],
        "kv_usage": columns["used_blocks_s"] / width / blocks,
        "kv_usage_max": columns["used_blocks_max"] / blocks,
        "preemptions": columns["preemptions"],
        "recompute_ratio": np.divide(columns["recompute_ratio_s"], busy, out=np.zeros_like(busy), where=busy > 0),
    }
