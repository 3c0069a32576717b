"""Coasting: when several steps as one event end, and where an arrival cuts them."""

from __future__ import annotations

import pytest

from servecast.model.coast import Coast


def test_ends_follow_the_series() -> None:
    coast = Coast(start_s=10.0, first_s=0.5, duration_s=1.0, slope_s=0.1, steps=3)
    assert [coast.end_s(steps) for steps in range(4)] == pytest.approx([10.5, 11.5, 12.6, 13.8])
    assert coast.last_s == pytest.approx(13.8)


@pytest.mark.parametrize("slope", [0.0, 1e-25, 1e-9, 0.1])
@pytest.mark.parametrize(("time", "steps"), [(10.2, 0), (10.5, 0), (10.6, 1), (11.4, 1), (11.51, 2), (99.0, 3)])
def test_an_arrival_ends_the_run_with_the_step_under_way(slope: float, time: float, steps: int) -> None:
    coast = Coast(start_s=10.0, first_s=0.5, duration_s=1.0, slope_s=slope, steps=3)
    coast.stop_by(time)
    assert coast.steps == steps
    assert coast.last_s == coast.end_s(steps)


def test_without_a_step_before_them_at_least_one_runs() -> None:
    coast = Coast(start_s=10.0, first_s=0.0, duration_s=1.0, slope_s=0.0, steps=3)
    coast.stop_by(10.0)
    assert coast.steps == 1


@pytest.mark.parametrize("steps", [1, 7, 1000])
def test_a_stop_at_the_very_end_of_a_step_takes_no_further_one(steps: int) -> None:
    coast = Coast(start_s=3.0, first_s=0.013, duration_s=0.0071, slope_s=1.3e-7, steps=2000)
    coast.stop_by(coast.end_s(steps))
    assert coast.steps == steps
