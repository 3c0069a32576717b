"""Percentiles and moments of samples, with whole-number weights where equal values come in bulk."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

PERCENTILES = (50, 90, 95, 99)


def describe_ms(seconds: Floats, weights: Floats | None = None) -> dict[str, float | None]:
    """mean, median, std and PERCENTILES of `seconds`, in ms, under vLLM's names without the metric ("p99", ...).

    weights: how often each value occurs. All None for no values.
    """
    names = ("mean", "median", "std", *(f"p{q}" for q in PERCENTILES))
    counts = np.ones(len(seconds)) if weights is None else weights
    total = counts.sum()
    if total == 0:
        return dict.fromkeys(names)
    values = seconds * 1e3
    mean = float(values @ counts / total)
    std = float(np.sqrt(((values - mean) ** 2) @ counts / total))
    if weights is None:
        quantiles = np.percentile(values, PERCENTILES)
    else:
        quantiles = weighted_percentiles(values, counts, PERCENTILES)
    return dict(zip(names, (mean, float(quantiles[0]), std, *quantiles.tolist()), strict=True))


def weighted_percentiles(values: Floats, counts: Floats, percentiles: Sequence[float]) -> Floats:
    """What `np.percentile` gives for the sample in which `values[i]` occurs `counts[i]` times (at least one in all)."""
    order = np.argsort(values, kind="stable")
    ordered, ends = values[order], np.cumsum(counts[order])
    positions = np.asarray(percentiles) / 100 * (ends[-1] - 1)
    below, above = np.floor(positions), np.ceil(positions)
    low = ordered[np.searchsorted(ends, below, side="right")]
    high = ordered[np.searchsorted(ends, above, side="right")]
    return np.asarray(low + (positions - below) * (high - low))


def peak_overlap(starts: Floats, ends: Floats) -> int:
    """The most intervals [start, end) that are open at once."""
    if not len(starts):
        return 0
    times = np.concatenate([ends, starts])
    changes = np.concatenate([-np.ones(len(ends)), np.ones(len(starts))])
    # A stable sort puts ends before starts of the same instant, as they come in `times`.
    order = np.argsort(times, kind="stable")
    return int(np.cumsum(changes[order]).max())
