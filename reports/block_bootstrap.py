"""Intervals for statistics of one run's requests, and for their difference between two runs.

Neighbours share a queue, so requests are not drawn one by one but in blocks of consecutive ones, which keep most of
that dependence (block bootstrap). The interval says how much a statistic would vary with other requests of the same
traffic. It says nothing of the model's own error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from servecast.reports.diff import Change

Floats = NDArray[np.float64]
Statistic = Callable[[Floats], float]

BLOCKS = 25
RESAMPLES = 400
# Of larger blocks as many quantiles stand for their values, so that a million requests take no longer.
_VALUES_OF_BLOCK = 1000


def change(before: Floats, after: Floats, statistic: Statistic, *, paired: bool, seed: int = 0) -> Change:
    """before, after: a value for each request in order of arrival, NaN for none. paired: the same requests arrive in
    both, so that the same blocks are drawn from both.
    """
    known = [values[~np.isnan(values)] for values in (before, after)]
    figures = [statistic(values) if len(values) else float("nan") for values in known]
    # Two values a block are few, but with fewer there is nothing to draw from.
    if min(map(len, known)) < 2 * BLOCKS:
        return Change(figures[0], figures[1])
    random = np.random.default_rng(seed)
    drawn = random.integers(BLOCKS, size=(2, RESAMPLES, BLOCKS))
    if paired:
        drawn[1] = drawn[0]
    resampled = [
        _resample(_blocks(values), rows, statistic) for values, rows in zip((before, after), drawn, strict=True)
    ]
    low, high = np.percentile(resampled[1] - resampled[0], (2.5, 97.5))
    return Change(figures[0], figures[1], float(low), float(high))


def _blocks(values: Floats) -> list[Floats]:
    """Consecutive requests, as equal in number as it goes."""
    blocks = [block[~np.isnan(block)] for block in np.array_split(values, BLOCKS)]
    return [_thinned(block) for block in blocks]


def _thinned(block: Floats) -> Floats:
    if len(block) <= _VALUES_OF_BLOCK:
        return block
    middles = (np.arange(_VALUES_OF_BLOCK) + 0.5) / _VALUES_OF_BLOCK * 100
    return np.asarray(np.percentile(block, middles))


def _resample(blocks: Sequence[Floats], drawn: NDArray[np.int64], statistic: Statistic) -> Floats:
    return np.array([statistic(np.concatenate([blocks[i] for i in row])) for row in drawn])
