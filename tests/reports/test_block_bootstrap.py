"""Intervals of differences, where the truth is known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from servecast.reports.block_bootstrap import change

Floats = NDArray[np.float64]


def mean(values: Floats) -> float:
    return float(values.mean())


def correlated(random: np.random.Generator, size: int) -> Floats:
    """Values that resemble their neighbours, as latencies behind one queue do; mean 0."""
    noise = random.normal(size=size + 20)
    return np.convolve(noise, np.ones(20) / 20, mode="valid")[:size]


def test_what_did_not_change_has_not_moved() -> None:
    values = correlated(np.random.default_rng(0), 1000)
    same = change(values, values, mean, paired=True)
    assert (same.low, same.high, same.moved) == (0.0, 0.0, False)


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    random = np.random.default_rng(1)
    trials = [change(correlated(random, 2000), correlated(random, 2000) + 0.1, mean, paired=False) for _ in range(60)]
    held = sum(found.low < 0.1 < found.high for found in trials if found.low is not None and found.high is not None)
    # 95 % of 60 is 57; drawing requests one by one would hold it in about 20.
    assert 51 <= held <= 60


def test_pairing_takes_out_what_both_runs_share() -> None:
    random = np.random.default_rng(2)
    before = correlated(random, 2000)
    after = before + 0.01 + 0.001 * random.normal(size=2000)
    assert change(before, after, mean, paired=True).moved
    assert not change(before, after, mean, paired=False).moved


def test_missing_values_are_left_out_and_too_few_have_no_interval() -> None:
    values = np.arange(200.0)
    values[::2] = np.nan
    assert change(values, values + 1, mean, paired=True).before == 100.0
    few = change(np.arange(10.0), np.arange(10.0), mean, paired=True)
    assert (few.before, few.low, few.moved) == (4.5, None, None)
    nothing = change(np.full(5, np.nan), np.arange(5.0), mean, paired=True)
    assert np.isnan(nothing.before)
