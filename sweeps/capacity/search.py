"""Bracket upward, then narrow: the highest load that still passes. Knows no simulator."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

# Factor from the guess to the next load that is tried; each further step outward is the square of the last.
_FIRST_STEP = 1.25
_LONGEST_STEP = 4.0


@dataclass(frozen=True)
class Attempt:
    """One load that was tried. ratio: the worst value over its limit, at most 1 if `met`; infinity where unknown."""

    load: float
    met: bool
    ratio: float


@dataclass(frozen=True)
class SearchRules:
    """precision: how far apart, as a share, the highest load that passed and the lowest that failed may be at the end.

    floor, ceiling: loads that are not left. most: attempts. whole: loads are whole numbers. first_step: factor from the
    guess to the second attempt.
    """

    precision: float = 0.02
    floor: float = 1e-3
    ceiling: float = 1e6
    most: int = 20
    whole: bool = False
    first_step: float = _FIRST_STEP


@dataclass(frozen=True)
class Found:
    """passed: the highest load that passed with all below it that were tried, None if none did; failed: the lowest
    that failed, None if none did. precise: they are as close as asked. attempts: in the order tried.
    """

    passed: float | None
    failed: float | None
    precise: bool
    attempts: tuple[Attempt, ...]

    @property
    def floor_hit(self) -> bool:
        """Even the lowest load failed."""
        return self.passed is None

    @property
    def ceiling_hit(self) -> bool:
        """Even the highest load passed."""
        return self.failed is None


@dataclass
class _Bracket:
    rules: SearchRules
    passed: Attempt | None = None
    failed: Attempt | None = None
    attempts: list[Attempt] = field(default_factory=list)

    def add(self, attempt: Attempt) -> None:
        self.attempts.append(attempt)
        if attempt.met:
            self.passed = attempt
        else:
            self.failed = attempt

    @property
    def width(self) -> float:
        """Logarithm of failed over passed; infinity while one is missing."""
        if self.passed is None or self.failed is None:
            return math.inf
        return math.log(self.failed.load / self.passed.load)

    @property
    def precise(self) -> bool:
        if self.passed is None or self.failed is None:
            return False
        if self.rules.whole and self.failed.load - self.passed.load <= 1:
            return True
        return self.width <= math.log1p(self.rules.precision) + 1e-12

    def exhausted(self) -> bool:
        """Nothing is left to try at the floor or the ceiling."""
        low = self.failed is not None and self.failed.load <= self.rules.floor
        high = self.passed is not None and self.passed.load >= self.rules.ceiling
        return low or high


def search(attempt: Callable[[float], Attempt], guess: float, rules: SearchRules) -> Found:
    """Call `attempt` at up to `rules.most` loads, the first at `guess`, and narrow down where it begins to fail.

    Every load tried lies between the highest that passed and the lowest that failed so far, so these two only come
    closer, however noisy `attempt` is.
    """
    bracket = _Bracket(rules)
    step, load, width = rules.first_step, _rounded(guess, rules), math.inf
    while len(bracket.attempts) < rules.most:
        bracket.add(attempt(load))
        if bracket.precise or bracket.exhausted():
            break
        if bracket.passed is None or bracket.failed is None:
            load = _outward(bracket, step)
            step = min(step * step, _LONGEST_STEP)
        else:
            # An interpolation that leaves more than half is followed by a bisection.
            slow = bracket.width > width / 2
            width = bracket.width
            load = _inward(bracket, bisect=slow)
    return Found(
        passed=None if bracket.passed is None else bracket.passed.load,
        failed=None if bracket.failed is None else bracket.failed.load,
        precise=bracket.precise,
        attempts=tuple(bracket.attempts),
    )


def _rounded(load: float, rules: SearchRules) -> float:
    load = min(max(load, rules.floor), rules.ceiling)
    return float(max(1, round(load))) if rules.whole else load


def _outward(bracket: _Bracket, step: float) -> float:
    rules = bracket.rules
    if bracket.passed is not None:
        load = _rounded(bracket.passed.load * step, rules)
        return max(load, bracket.passed.load + 1) if rules.whole else load
    assert bracket.failed is not None  # one of the two is there after the first attempt
    load = _rounded(bracket.failed.load / step, rules)
    return max(min(load, bracket.failed.load - 1), 1.0) if rules.whole else load


def _inward(bracket: _Bracket, *, bisect: bool) -> float:
    passed, failed = bracket.passed, bracket.failed
    assert passed is not None
    assert failed is not None
    share = 0.5
    if not bisect and 0 < passed.ratio < 1 < failed.ratio < math.inf:
        share = -math.log(passed.ratio) / math.log(failed.ratio / passed.ratio)
    # At least half the final width from either end: what is left is then done or nearly so.
    margin = min(0.5, math.log1p(bracket.rules.precision) / bracket.width / 2)
    share = min(max(share, margin), 1 - margin)
    load = passed.load * math.exp(share * bracket.width)
    if not bracket.rules.whole:
        return load
    return min(max(float(round(load)), passed.load + 1), failed.load - 1)
