"""Arrival processes against their closed forms."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from servecast.hardware.errors import ConfigError
from servecast.model.arrivals import (
    BatchArrivals,
    ClosedLoop,
    ClosedLoopArrivals,
    ConstantArrivals,
    GammaArrivals,
    OpenArrivals,
    PoissonArrivals,
    ScheduleArrivals,
    TraceArrivals,
)


def rng(seed: int = 7) -> np.random.Generator:
    return np.random.default_rng(seed)


def gaps(process: OpenArrivals, count: int = 200_000) -> np.ndarray:
    return np.diff(process.times(count, rng()), prepend=0.0)


def test_poisson_gaps_have_mean_and_deviation_of_one_over_the_rate() -> None:
    drawn = gaps(PoissonArrivals(8.0))
    assert drawn.mean() == pytest.approx(1 / 8, rel=0.01)
    assert drawn.std() == pytest.approx(1 / 8, rel=0.01)


def test_poisson_counts_a_second_have_variance_equal_to_mean() -> None:
    times = PoissonArrivals(8.0).times(200_000, rng())
    counts = np.bincount(times.astype(int))[:-1]
    assert counts.var() / counts.mean() == pytest.approx(1.0, abs=0.03)


@pytest.mark.parametrize("burstiness", [0.25, 0.5, 1.0, 4.0])
def test_gamma_gaps_have_the_coefficient_of_variation_of_vllm_bench(burstiness: float) -> None:
    drawn = gaps(GammaArrivals(5.0, burstiness))
    assert drawn.mean() == pytest.approx(1 / 5, rel=0.02)
    assert drawn.std() / drawn.mean() == pytest.approx(1 / math.sqrt(burstiness), rel=0.02)


def test_gamma_of_burstiness_1_is_poisson() -> None:
    assert GammaArrivals(5.0).times(100, rng()) == pytest.approx(PoissonArrivals(5.0).times(100, rng()))


def test_gamma_can_be_given_by_its_coefficient_of_variation() -> None:
    assert GammaArrivals.from_cv(5.0, cv=2.0) == GammaArrivals(5.0, burstiness=0.25)
    assert gaps(GammaArrivals.from_cv(5.0, cv=0.0), 100) == pytest.approx(0.2)


def test_constant_arrivals_begin_after_the_first_gap() -> None:
    assert ConstantArrivals(4.0).times(4, rng()).tolist() == [0.25, 0.5, 0.75, 1.0]


def test_a_batch_arrives_at_0_and_so_does_an_infinite_rate() -> None:
    assert BatchArrivals().times(3, rng()).tolist() == [0, 0, 0]
    assert PoissonArrivals(math.inf).times(3, rng()).tolist() == [0, 0, 0]


@pytest.mark.parametrize("process", [PoissonArrivals(5.0, exact_rate=True), GammaArrivals(5.0, 0.3, True)])
def test_exact_rate_puts_the_last_request_on_count_over_rate(process: OpenArrivals) -> None:
    assert process.times(100, rng())[-1] == pytest.approx(20.0)


def test_another_rate_stretches_the_same_pattern() -> None:
    slow, fast = PoissonArrivals(2.0).times(50, rng()), PoissonArrivals(8.0).times(50, rng())
    assert slow == pytest.approx(4 * fast)


def test_a_trace_is_replayed_and_can_be_sped_up() -> None:
    trace = TraceArrivals(np.array([0.0, 2.0, 3.0]), rate_scale=2.0)
    assert trace.times(2, rng()).tolist() == [0.0, 1.0]
    with pytest.raises(ConfigError, match=r"num_requests: asks for 4 requests, the trace holds 3"):
        trace.times(4, rng())


def test_a_schedule_of_one_rate_is_poisson() -> None:
    assert ScheduleArrivals((0.0,), (5.0,)).times(50, rng()) == pytest.approx(PoissonArrivals(5.0).times(50, rng()))


def test_a_step_schedule_has_each_rate_in_its_time_and_keeps_the_last() -> None:
    times = ScheduleArrivals((0.0, 100.0, 200.0), (50.0, 0.0, 200.0)).times(40_000, rng())
    counts = np.histogram(times, [0, 100, 200, 300])[0]
    assert counts[0] == pytest.approx(5000, abs=4 * math.sqrt(5000))
    assert counts[1] == 0
    assert counts[2] == pytest.approx(20_000, abs=4 * math.sqrt(20_000))


def test_a_linear_schedule_ramps() -> None:
    """From 0 to 100/s over 100 s: t seconds have seen t^2/2 requests, so half of all come after 71 s."""
    times = ScheduleArrivals((0.0, 100.0), (0.0, 100.0), "linear").times(5000, rng())
    assert times[1249] == pytest.approx(50, rel=0.06)
    assert times[-1] == pytest.approx(100, rel=0.06)


def test_a_schedule_repeats_after_its_period() -> None:
    times = ScheduleArrivals((0.0, 10.0), (100.0, 0.0), period_s=20.0).times(50_000, rng())
    assert np.all(times % 20.0 < 10.0)
    assert times[-1] == pytest.approx(50_000 / 50, rel=0.03)


def test_a_diurnal_day_has_its_mean_and_its_peak() -> None:
    times = ScheduleArrivals.diurnal(request_rate=2.0, peak_to_mean=1.8).times(172_800, rng())
    assert times[-1] == pytest.approx(86_400, rel=0.01)
    noon = np.count_nonzero(np.abs(times - 43_200) < 1800) / 3600
    assert noon == pytest.approx(2.0 * 1.8, rel=0.03)
    night = np.count_nonzero(times < 1800) / 1800
    assert night == pytest.approx(2.0 * 0.2, rel=0.2)


def test_a_schedule_that_ends_at_0_says_how_many_requests_come() -> None:
    schedule = ScheduleArrivals((0.0, 10.0), (10.0, 0.0))
    with pytest.raises(ConfigError, match=r"asks for 1,000 requests, but .* ends at rate 0 after \d+"):
        schedule.times(1000, rng())


@settings(max_examples=50, deadline=None)
@given(
    segments=st.lists(
        st.tuples(st.floats(0.1, 100), st.one_of(st.just(0.0), st.floats(0.01, 100))), min_size=1, max_size=6
    ),
    shape=st.sampled_from(["step", "linear"]),
    repeats=st.booleans(),
)
def test_inversion_meets_the_integral_of_any_schedule(
    segments: list[tuple[float, float]], shape: str, repeats: bool
) -> None:
    """The integral of the rate up to the k-th arrival is the sum of the k exponential variables drawn."""
    widths, rates = zip(*segments, strict=True)
    rates = (*rates[:-1], rates[-1] + 1.0)
    edges = np.concatenate(([0.0], np.cumsum(widths)))
    period = float(edges[-1]) if repeats else None
    schedule = ScheduleArrivals(tuple(edges[:-1].tolist()), rates, shape, period)  # type: ignore[arg-type] # sampled
    times = schedule.times(40, rng())
    mass = np.cumsum(rng().standard_exponential(40))
    assert np.all(np.diff(times) >= 0)
    for time, expected in zip(times.tolist(), mass.tolist(), strict=True):
        assert _integral(schedule, time) == pytest.approx(expected, rel=1e-6, abs=1e-6)


def _integral(schedule: ScheduleArrivals, until_s: float) -> float:
    """Requests expected until a time, by the trapezoid rule on the schedule's own corners."""
    knots, rates = list(schedule.times_s), list(schedule.request_rates)
    if schedule.period_s is not None:
        whole, until_s = divmod(until_s, schedule.period_s)
        knots.append(schedule.period_s)
        rates.append(rates[0])
    else:
        whole = 0.0
        knots.append(1e12)
        rates.append(rates[-1])
    done = cycle = 0.0
    for (a, b), (low, high) in zip(pairwise(knots), pairwise(rates), strict=True):
        end = high if schedule.shape == "linear" else low
        x = min(max(until_s - a, 0.0), b - a)
        done += low * x + (end - low) / (b - a) * x**2 / 2
        cycle += (low + end) / 2 * (b - a)
    return done + (whole * cycle if whole else 0.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PoissonArrivals(-1), "request_rate: must be above 0 requests/s, found -1"),
        (lambda: PoissonArrivals(math.nan), "request_rate: must be above 0"),
        (lambda: GammaArrivals(1.0, 0.0), "burstiness: must be above 0"),
        (lambda: ClosedLoop(0), "concurrency: must be 1 or more"),
        (lambda: ClosedLoop(1, -1.0), "think_time_s: must be 0 s or more"),
        (lambda: TraceArrivals(np.array([1.0, 0.0])), "times_s: must not decrease"),
        (lambda: ScheduleArrivals((1.0,), (1.0,)), "times_s: must begin at 0 s"),
        (lambda: ScheduleArrivals((0.0, 1.0), (1.0,)), "times_s: needs one entry for each"),
        (lambda: ScheduleArrivals((0.0, 1.0), (0.0, 0.0)), "request_rates: are all 0"),
        (lambda: ScheduleArrivals((0.0, 1.0), (1.0, 1.0), period_s=0.5), "period_s: must lie after"),
        (lambda: ScheduleArrivals.diurnal(1.0, 3.0), r"peak_to_mean: must lie in 1\.\.2"),
    ],
)
def test_wrong_parameters_are_named(make: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()  # type: ignore[operator] # a lambda of the list above


def test_the_closed_loop_has_the_name_of_the_other_processes_too() -> None:
    assert ClosedLoopArrivals is ClosedLoop
