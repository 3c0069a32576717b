"""The search on functions whose answer is known, with and without noise."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from servecast.sweeps.capacity.search import Attempt, Found, SearchRules, search


def system(capacity: float, *, noise: float = 0.0, seed: int = 0, steep: float = 3.0) -> Callable[[float], Attempt]:
    """Its ratio is 1 at `capacity` and grows with the load; each attempt is off by the share `noise`."""
    rng = np.random.default_rng(seed)

    def attempt(load: float) -> Attempt:
        ratio = (load / capacity) ** steep * math.exp(rng.normal(0, noise))
        return Attempt(load, ratio <= 1, ratio)

    return attempt


def check(found: Found, rules: SearchRules) -> None:
    """What holds however noisy the attempts were: the bracket only ever closes."""
    passed, failed = 0.0, math.inf
    assert len(found.attempts) <= rules.most
    for attempt in found.attempts:
        assert passed < attempt.load < failed
        if attempt.met:
            passed = attempt.load
        else:
            failed = attempt.load
    assert found.passed == (passed or None)
    assert found.failed == (None if failed == math.inf else failed)


@pytest.mark.parametrize("guess", [0.05, 3.0, 7.3, 10.0, 200.0])
def test_it_finds_the_capacity_from_any_guess(guess: float) -> None:
    rules = SearchRules(precision=0.02)
    found = search(system(7.3), guess, rules)
    check(found, rules)
    assert found.precise
    assert found.passed is not None
    assert found.failed is not None
    assert found.passed <= 7.3 < found.failed <= found.passed * 1.02 * (1 + 1e-9)


def test_a_good_guess_needs_few_attempts() -> None:
    assert len(search(system(7.3), 7.0, SearchRules()).attempts) <= 6


@pytest.mark.parametrize("seed", range(50))
def test_noise_moves_the_answer_by_no_more_than_itself(seed: int) -> None:
    rules = SearchRules(precision=0.02)
    noise, steep = 0.06, 3.0
    found = search(system(7.3, noise=noise, seed=seed, steep=steep), 4.0, rules)
    check(found, rules)
    assert found.precise
    assert found.passed is not None
    # Each attempt is misjudged where the load is within about three deviations (of the load) of the capacity.
    assert abs(math.log(found.passed / 7.3)) < 3 * noise / steep + 0.02


def test_a_verdict_without_a_ratio_is_bisected() -> None:
    def attempt(load: float) -> Attempt:
        return Attempt(load, load <= 7.3, 0.5 if load <= 7.3 else math.inf)

    found = search(attempt, 1.0, SearchRules())
    assert found.precise
    assert len(found.attempts) <= 12


def test_the_floor_and_the_ceiling_are_not_left() -> None:
    rules = SearchRules(floor=1.0, ceiling=100.0)
    low, high = search(system(0.1), 10.0, rules), search(system(1e4), 10.0, rules)
    assert low.floor_hit
    assert low.failed == 1.0
    assert high.ceiling_hit
    assert high.passed == 100.0
    assert not low.precise
    assert not high.precise


def test_attempts_run_out() -> None:
    found = search(system(7.3), 1.0, SearchRules(precision=1e-6, most=7))
    assert len(found.attempts) == 7
    assert not found.precise


@pytest.mark.parametrize(("capacity", "answer"), [(37.5, 37), (1.5, 1), (200.0, 200)])
def test_whole_loads_are_found_to_the_unit_or_the_precision(capacity: float, answer: int) -> None:
    rules = SearchRules(whole=True, floor=1, ceiling=4096, precision=0.001)
    found = search(system(capacity), 20.0, rules)
    check(found, rules)
    assert all(attempt.load == round(attempt.load) for attempt in found.attempts)
    assert (found.passed, found.failed) == (answer, answer + 1)
