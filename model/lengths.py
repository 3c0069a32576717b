"""How long prompts and outputs are, in tokens: whole numbers, 1 or more.

A distribution is its quantile function: `at(u)` turns probabilities in [0, 1) into token counts (int64), so a
draw is `at(rng.random(n))` and a rank correlation between prompt and output needs nothing but correlated `u`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from servecast.model.checks import require

Floats = npt.NDArray[np.float64]
Tokens = npt.NDArray[np.int64]

LONGEST_TOKENS = 10**9  # bound of an unbounded draw: far above any context, far below the end of int64


def _require_tokens(key: str, value: float) -> None:
    ok = value >= 1 and float(value).is_integer()
    require(ok, key, f"must be a whole number of tokens, 1 or more, found {value!r}")


def _whole_tokens(values: Floats) -> Tokens:
    return np.maximum(np.rint(values), 1).astype(np.int64)


@dataclass(frozen=True)
class FixedLength:
    """Always `value` tokens."""

    value: int

    def __post_init__(self) -> None:
        _require_tokens("value", self.value)

    def at(self, u: Floats) -> Tokens:
        return np.full(len(u), self.value, dtype=np.int64)


@dataclass(frozen=True)
class UniformLength:
    """Every whole number from `low` to `high`, both included, equally likely."""

    low: int
    high: int

    def __post_init__(self) -> None:
        _require_tokens("low", self.low)
        _require_tokens("high", self.high)
        require(self.high >= self.low, "high", f"must not lie below low ({self.low}), found {self.high!r}")

    @classmethod
    def from_range_ratio(cls, value: int, range_ratio: float) -> Self:
        """vLLM's `--random-range-ratio`: floor(value*(1-ratio)) to ceil(value*(1+ratio)), ratio in [0, 1).

        SGLang and InferenceX mean another thing by the same word: from value*ratio to value (0.8 gives
        0.8..1.0 of the nominal length); write those as `low` and `high`.
        """
        _require_tokens("value", value)
        require(0 <= range_ratio < 1, "range_ratio", f"must lie in [0, 1), found {range_ratio!r}")
        return cls(max(1, math.floor(value * (1 - range_ratio))), math.ceil(value * (1 + range_ratio)))

    def at(self, u: Floats) -> Tokens:
        # u of 1 - 1e-16 may be rounded up to 1 on the way here, hence the bound.
        return np.minimum(self.low + (u * (self.high - self.low + 1)).astype(np.int64), self.high)


@dataclass(frozen=True)
class LognormalLength:
    """Lognormal with the given `mean` (tokens) and coefficient of variation `cv`, rounded.

    Draws below `min` or above `max` become `min` or `max`; mean and cv are those before that.
    """

    mean: float
    cv: float
    min: int = 1
    max: int | None = None

    def __post_init__(self) -> None:
        require(0 < self.mean < math.inf, "mean", f"must be above 0 tokens, found {self.mean!r}")
        require(0 <= self.cv <= 100, "cv", f"must lie in 0..100, found {self.cv!r}")
        _require_tokens("min", self.min)
        if self.max is not None:
            _require_tokens("max", self.max)
        ok = self.max is None or self.max >= self.min
        require(ok, "max", f"must not lie below min ({self.min}), found {self.max!r}")

    def at(self, u: Floats) -> Tokens:
        variance = math.log1p(self.cv**2)
        log_tokens = math.log(self.mean) - variance / 2 + math.sqrt(variance) * normal_quantile(u)
        highest = LONGEST_TOKENS if self.max is None else self.max
        return _whole_tokens(np.clip(np.exp(log_tokens), self.min, highest))


@dataclass(frozen=True)
class HistogramLength:
    """A quantile table: with probability `probabilities[i]` at most `tokens[i]`, straight lines between.

    probabilities: from 0 to 1, increasing. tokens: not decreasing, 1 or more; results are rounded to whole
    tokens.
    """

    probabilities: tuple[float, ...]
    tokens: tuple[float, ...]

    def __post_init__(self) -> None:
        p, tokens = self.probabilities, self.tokens
        require(len(p) >= 2, "probabilities", "needs two entries or more")
        require(len(p) == len(tokens), "tokens", f"has {len(tokens)} entries, probabilities has {len(p)}")
        ends = p[0] == 0 and p[-1] == 1
        require(ends, "probabilities", f"must run from 0 to 1, found {p[0]!r} to {p[-1]!r}")
        require(all(a < b for a, b in pairwise(p)), "probabilities", "must increase")
        require(tokens[0] >= 1, "tokens", f"must be 1 or more, found {tokens[0]!r}")
        require(all(a <= b for a, b in pairwise(tokens)), "tokens", "must not decrease")

    def at(self, u: Floats) -> Tokens:
        return _whole_tokens(np.interp(u, self.probabilities, self.tokens))


LengthDistribution = FixedLength | UniformLength | LognormalLength | HistogramLength


@dataclass(frozen=True)
class JointLengths:
    """Prompt and output lengths with their own distributions, tied by a rank correlation.

    rank_correlation: Spearman's, -1 to 1. It comes from a Gaussian copula, whose normal variables have the
    correlation 2*sin(pi*rho/6) (Kruskal 1958); the two distributions stay as they are. 0 draws them
    independently.
    """

    prompt: LengthDistribution
    output: LengthDistribution
    rank_correlation: float = 0.0

    def __post_init__(self) -> None:
        ok = -1 <= self.rank_correlation <= 1
        require(ok, "rank_correlation", f"must lie in -1..1, found {self.rank_correlation!r}")

    def draw(
        self, count: int, prompt_rng: np.random.Generator, output_rng: np.random.Generator
    ) -> tuple[Tokens, Tokens]:
        """Prompt and output tokens of `count` requests. Prompts do not depend on the outputs."""
        u_prompt, u_output = prompt_rng.random(count), output_rng.random(count)
        if self.rank_correlation:
            rho = 2 * math.sin(math.pi * self.rank_correlation / 6)
            own = math.sqrt(max(0.0, 1 - rho**2)) * normal_quantile(u_output)
            u_output = normal_cdf(rho * normal_quantile(u_prompt) + own)
        return self.prompt.at(u_prompt), self.output.at(u_output)


@dataclass(frozen=True, eq=False)
class EmpiricalLengths:
    """Pairs of recorded lengths. `prompt_tokens` and `output_tokens`: int64, same size, 1 or more.

    order: `replay` takes the pairs as recorded and begins again at the end; `sample` draws pairs at random,
    each as often as it comes.
    """

    prompt_tokens: Tokens
    output_tokens: Tokens
    order: Literal["replay", "sample"] = "replay"

    def __post_init__(self) -> None:
        prompts, outputs = len(self.prompt_tokens), len(self.output_tokens)
        require(prompts == outputs, "output_tokens", f"has {outputs} entries, prompt_tokens has {prompts}")
        require(prompts > 0, "prompt_tokens", "is empty")
        least = min(int(self.prompt_tokens.min()), int(self.output_tokens.min()))
        require(least >= 1, "prompt_tokens", f"and output_tokens must be 1 or more, found {least}")
        known = self.order in ("replay", "sample")
        require(known, "order", f"must be replay or sample, found {self.order!r}")

    def __len__(self) -> int:
        return len(self.prompt_tokens)

    def draw(
        self, count: int, prompt_rng: np.random.Generator, _output_rng: np.random.Generator
    ) -> tuple[Tokens, Tokens]:
        """Prompt and output tokens of `count` requests. A pair is drawn by the prompts' stream."""
        sampled = self.order == "sample"
        row = prompt_rng.integers(0, len(self), count) if sampled else np.arange(count) % len(self)
        return self.prompt_tokens[row], self.output_tokens[row]


Lengths = JointLengths | EmpiricalLengths


def rank_correlation(a: npt.NDArray[np.generic], b: npt.NDArray[np.generic]) -> float:
    """Spearman's rank correlation of two columns of the same length; 0 if either is constant.

    Equal values share the mean of their ranks.
    """
    ranks_a, ranks_b = _centred_ranks(a), _centred_ranks(b)
    spread = float(ranks_a.std() * ranks_b.std())
    return 0.0 if spread == 0 else float(np.mean(ranks_a * ranks_b)) / spread


def _centred_ranks(values: npt.NDArray[np.generic]) -> Floats:
    _, group, size = np.unique(values, return_inverse=True, return_counts=True)
    below = np.cumsum(size) - size
    ranks = (below + (size - 1) / 2)[group]
    centred: Floats = ranks - ranks.mean()
    return centred


@cache
def _normal_table() -> tuple[Floats, Floats]:
    """Points z and Phi(z), 1/256 apart: linear interpolation is right to 5e-7, which moves no token count."""
    z = np.linspace(-8.25, 8.25, 4225)
    return z, np.array([0.5 * math.erfc(-x / math.sqrt(2)) for x in z.tolist()])


def normal_cdf(z: Floats) -> Floats:
    """Probability that a standard normal variable is below `z`, from a table (numpy has no erf)."""
    points, probabilities = _normal_table()
    return np.interp(z, points, probabilities)


def normal_quantile(u: Floats) -> Floats:
    """Inverse of `normal_cdf`; 0 gives -8.25."""
    points, probabilities = _normal_table()
    return np.interp(u, probabilities, points)
