"""Length distributions against their closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from servecast.hardware.errors import ConfigError
from servecast.model.lengths import (
    EmpiricalLengths,
    FixedLength,
    HistogramLength,
    JointLengths,
    LengthDistribution,
    LognormalLength,
    UniformLength,
    normal_cdf,
    normal_quantile,
    rank_correlation,
)

U = (np.arange(100_000) + 0.5) / 100_000  # every probability alike: moments without sampling noise

TABLE = HistogramLength((0.0, 0.5, 0.9, 1.0), (10, 100, 1000, 4000))


def rngs(seed: int = 3) -> tuple[np.random.Generator, np.random.Generator]:
    return np.random.default_rng(seed), np.random.default_rng(seed + 1)


def test_fixed() -> None:
    assert FixedLength(512).at(U).tolist() == [512] * len(U)


def test_uniform_includes_both_ends_equally_often() -> None:
    values, counts = np.unique(UniformLength(3, 7).at(U), return_counts=True)
    assert values.tolist() == [3, 4, 5, 6, 7]
    assert counts == pytest.approx(len(U) / 5, abs=1)


def test_range_ratio_is_that_of_vllm_bench() -> None:
    assert UniformLength.from_range_ratio(1024, 0.1) == UniformLength(921, 1127)
    assert UniformLength.from_range_ratio(128, 0.0) == UniformLength(128, 128)
    assert UniformLength.from_range_ratio(1, 0.9) == UniformLength(1, 2)


def test_lognormal_has_its_mean_and_coefficient_of_variation() -> None:
    tokens = LognormalLength(mean=1000, cv=0.8).at(U)
    assert tokens.mean() == pytest.approx(1000, rel=0.002)
    assert tokens.std() / tokens.mean() == pytest.approx(0.8, rel=0.01)
    assert np.median(tokens) == pytest.approx(1000 / math.sqrt(1 + 0.8**2), rel=0.001)


def test_lognormal_is_held_between_min_and_max() -> None:
    tokens = LognormalLength(mean=1000, cv=2.0, min=50, max=4096).at(U)
    assert (tokens.min(), tokens.max()) == (50, 4096)
    assert np.mean(tokens == 4096) == pytest.approx(1 - _lognormal_cdf(4096, 1000, 2.0), abs=1e-4)


def _lognormal_cdf(x: float, mean: float, cv: float) -> float:
    sigma = math.sqrt(math.log(1 + cv**2))
    return 0.5 * math.erfc(-(math.log(x / mean) + sigma**2 / 2) / sigma / math.sqrt(2))


def test_histogram_meets_its_quantiles_with_straight_lines_between() -> None:
    assert TABLE.at(np.array([0.0, 0.25, 0.5, 0.95, 1.0])).tolist() == [10, 55, 100, 2500, 4000]


def test_a_histogram_below_1_token_is_rounded_up_to_1() -> None:
    assert HistogramLength((0.0, 1.0), (1, 1.2)).at(U).max() == 1


@given(st.floats(-8, 8))
def test_the_normal_table_agrees_with_erfc_and_with_its_inverse(z: float) -> None:
    u = normal_cdf(np.array([z]))
    assert u[0] == pytest.approx(0.5 * math.erfc(-z / math.sqrt(2)), abs=5e-7)
    if abs(z) < 5:
        assert normal_quantile(u)[0] == pytest.approx(z, abs=1e-6)


@pytest.mark.parametrize("rho", [-0.9, -0.2, 0.0, 0.35, 1.0])
def test_joint_lengths_have_the_rank_correlation_and_keep_both_distributions(rho: float) -> None:
    prompt, output = JointLengths(LognormalLength(800, 1.0), TABLE, rho).draw(100_000, *rngs())
    assert rank_correlation(prompt, output) == pytest.approx(rho, abs=0.01)
    assert np.percentile(output, [50, 90]) == pytest.approx([100, 1000], rel=0.03)
    assert prompt.mean() == pytest.approx(800, rel=0.02)


def test_the_prompts_do_not_depend_on_the_outputs() -> None:
    one, _ = JointLengths(TABLE, FixedLength(1)).draw(100, *rngs())
    other, _ = JointLengths(TABLE, LognormalLength(100, 2.0), 0.7).draw(100, *rngs())
    assert one.tolist() == other.tolist()


def test_recorded_lengths_are_replayed_in_order_or_drawn_in_pairs() -> None:
    prompts, outputs = np.array([1, 2, 3]), np.array([10, 20, 30])
    replayed = EmpiricalLengths(prompts, outputs).draw(5, *rngs())
    assert [column.tolist() for column in replayed] == [[1, 2, 3, 1, 2], [10, 20, 30, 10, 20]]
    prompt, output = EmpiricalLengths(prompts, outputs, "sample").draw(3000, *rngs())
    assert np.array_equal(output, 10 * prompt)
    assert np.bincount(prompt)[1:] == pytest.approx(1000, abs=130)


def test_rank_correlation_shares_ranks_among_equal_values() -> None:
    """Worked by hand: ranks 0.5, 0.5, 2, 3 and 0, 1.5, 1.5, 3, so 3.75/4.5 (as scipy.stats.spearmanr)."""
    a, b = np.array([1, 1, 5, 9]), np.array([2, 4, 4, 8])
    assert rank_correlation(a, b) == pytest.approx(0.8333333)
    assert rank_correlation(a, np.ones(4)) == 0.0


@given(
    u=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=20),
    lengths=st.one_of(
        st.builds(FixedLength, st.integers(1, 10_000)),
        st.builds(lambda low, span: UniformLength(low, low + span), st.integers(1, 9999), st.integers(0, 9999)),
        st.builds(LognormalLength, st.floats(0.1, 1e5), st.floats(0, 100)),
    ),
)
def test_every_distribution_gives_whole_tokens_that_rise_with_the_probability(
    u: list[float], lengths: LengthDistribution
) -> None:
    tokens = lengths.at(np.array(sorted(u)))
    assert tokens.dtype == np.int64
    assert tokens.min() >= 1
    assert np.all(np.diff(tokens) >= 0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: FixedLength(0), "value: must be a whole number of tokens, 1 or more, found 0"),
        (lambda: FixedLength(1.5), "value: must be a whole number"),  # type: ignore[arg-type] # the point of it
        (lambda: UniformLength(5, 4), r"high: must not lie below low \(5\), found 4"),
        (lambda: UniformLength.from_range_ratio(100, 1.0), "range_ratio: must lie in"),
        (lambda: LognormalLength(0, 1), "mean: must be above 0"),
        (lambda: LognormalLength(10, -1), "cv: must lie in"),
        (lambda: LognormalLength(10, 1, min=8, max=4), "max: must not lie below min"),
        (lambda: HistogramLength((0.1, 1.0), (1, 2)), "probabilities: must run from 0 to 1"),
        (lambda: HistogramLength((0.0, 0.5, 0.5, 1.0), (1, 2, 3, 4)), "probabilities: must increase"),
        (lambda: HistogramLength((0.0, 1.0), (5, 2)), "tokens: must not decrease"),
        (lambda: HistogramLength((0.0, 1.0), (0, 2)), "tokens: must be 1 or more"),
        (lambda: HistogramLength((0.0, 1.0), (1, 2, 3)), "tokens: has 3 entries, probabilities has 2"),
        (lambda: JointLengths(TABLE, TABLE, 1.5), "rank_correlation: must lie in"),
        (
            lambda: EmpiricalLengths(np.array([1]), np.array([], dtype=np.int64)),
            "output_tokens: has 0 entries",
        ),
    ],
)
def test_wrong_parameters_are_named(make: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()  # type: ignore[operator] # a lambda of the list above
