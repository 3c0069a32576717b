"""Mean of replicates with its 95 % interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache

CONFIDENCE = 0.95


def mean_interval(values: Sequence[float]) -> tuple[float, float, float] | None:
    """Mean, lower and upper end of its 95 % interval (Student's t); None for fewer than two values."""
    count = len(values)
    if count < 2:
        return None
    mean = math.fsum(values) / count
    variance = math.fsum((value - mean) ** 2 for value in values) / (count - 1)
    half = student_t(count - 1) * math.sqrt(variance / count)
    return mean, mean - half, mean + half


@cache
def student_t(degrees: int) -> float:
    """The number that |t| stays below with probability `CONFIDENCE`, by bisection to the last digit."""
    low, high = 0.0, math.pi / 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if _probability(middle, degrees) < CONFIDENCE else (low, middle)
    return math.sqrt(degrees) * math.tan(low)


def _probability(angle: float, degrees: int) -> float:
    """P(|t| < sqrt(degrees) tan(angle)), a finite sum: Abramowitz and Stegun, 26.7.3 and 26.7.4."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term, total = (cosine if odd else 1.0), 0.0
    for number in range(2 + odd, degrees + 1, 2):
        total += term
        term *= cosine**2 * (number - 1) / number
    return 2 / math.pi * (angle + sine * total) if odd else sine * total
