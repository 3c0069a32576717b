"""Intervals of means."""

from __future__ import annotations

import numpy as np
import pytest

from servecast.sweeps.intervals import mean_interval, student_t


@pytest.mark.parametrize(
    ("degrees", "quantile"), [(1, 12.706), (2, 4.303), (3, 3.182), (4, 2.776), (9, 2.262), (30, 2.042)]
)
def test_student_t_as_tables_have_it(degrees: int, quantile: float) -> None:
    assert student_t(degrees) == pytest.approx(quantile, abs=5e-4)


def test_for_many_replicates_it_is_the_normal_distribution() -> None:
    assert student_t(999) == pytest.approx(1.9623, abs=1e-4)


def test_the_interval_holds_the_true_mean_95_times_in_100() -> None:
    draws = np.random.default_rng(0).normal(7, 2, size=(4000, 4))
    intervals = [mean_interval(list(row)) for row in draws]
    hits = sum(1 for interval in intervals if interval is not None and interval[1] <= 7 <= interval[2])
    assert hits / len(draws) == pytest.approx(0.95, abs=0.01)


def test_one_value_has_no_interval() -> None:
    assert mean_interval([3.0]) is None
    assert mean_interval([3.0, 3.0]) == (3, 3, 3)
