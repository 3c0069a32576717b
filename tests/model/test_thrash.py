"""Thrash detection: windows worked out by hand."""

from __future__ import annotations

import pytest

from servecast.model.thrash import WINDOW_STEPS, ThrashDetector


def test_thrashing_begins_above_a_fifth_and_ends_at_half_of_that() -> None:
    detector = ThrashDetector()
    detector.add(1.0, 1, 10, 2)
    assert (detector.ratio, detector.thrashing) == (0.2, False)
    detector.add(2.0, 1, 10, 3)
    assert (detector.ratio, detector.thrashing) == (0.25, True)
    detector.add(3.0, 1, 20, 0)  # 5 of 40: neither above the one nor below the other limit
    assert detector.thrashing
    detector.add(4.0, 1, 10, 0)
    assert (detector.ratio, detector.thrashing) == (0.1, False)
    assert detector.events == [(2.0, 0.25), (4.0, 0.1)]


def test_without_new_tokens_any_recomputation_is_thrashing() -> None:
    detector = ThrashDetector()
    assert detector.ratio == 0.0
    detector.add(1.0, 1, 0, 0)
    assert not detector.thrashing
    detector.add(2.0, 1, 0, 50)
    assert (detector.ratio, detector.thrashing) == (1.0, True)


def test_only_the_last_500_steps_count() -> None:
    detector = ThrashDetector()
    detector.add(1.0, 400, 1, 1)
    assert detector.ratio == 1.0
    detector.add(2.0, 200, 1, 0)  # the first 100 of the 400 are out
    assert detector.ratio == pytest.approx(300 / 500)
    detector.add(3.0, WINDOW_STEPS, 2, 0)
    assert detector.ratio == 0.0


@pytest.mark.parametrize("runs", [[(3, 8, 1), (900, 4, 0), (5, 2, 3)], [(700, 1, 1), (499, 3, 0), (2, 1, 9)]])
def test_a_run_of_steps_counts_like_its_steps_one_by_one(runs: list[tuple[int, int, int]]) -> None:
    joined, split = ThrashDetector(), ThrashDetector()
    for steps, new, recomputed in runs:
        joined.add(0.0, steps, new, recomputed)
        for _ in range(steps):
            split.add(0.0, 1, new, recomputed)
        assert joined.ratio == pytest.approx(split.ratio)
        assert joined.thrashing == split.thrashing
