"""Capacities of systems whose capacity is known, and of a real model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from builders import clock_engine, llama_8b, real_engine, run, trace, with_lengths
from servecast.hardware.errors import ConfigError
from servecast.model.arrivals import (
    Arrivals,
    BatchArrivals,
    ClosedLoop,
    ConstantArrivals,
    GammaArrivals,
    PoissonArrivals,
    ScheduleArrivals,
    TraceArrivals,
)
from servecast.model.lengths import FixedLength, JointLengths
from servecast.model.simulation import SimulationParameters
from servecast.model.slo import parse_slo
from servecast.model.workload import WorkloadParameters
from servecast.sweeps.capacity.capacity import CapacityOptions, find_capacity, seed_half_width
from servecast.sweeps.capacity.figures import capacity_figures
from servecast.sweeps.capacity.load import at_load, load_axis

QUICK = CapacityOptions(seeds=1, band=False)


def one_seat(arrivals: Arrivals, step_s: float = 0.1, **changes: object) -> SimulationParameters:
    """A request takes ten steps of `step_s` and runs alone: without limits on waiting, one a second."""
    lengths = JointLengths(FixedLength(16), FixedLength(10))
    parameters = run(
        trace([(0.0, 16, 10)]), engine=clock_engine(step_s), max_num_seqs=1, max_num_batched_tokens=64
    ).parameters
    return replace(parameters, workload=WorkloadParameters(arrivals, lengths, 1000), **changes)  # type: ignore[arg-type]


def chat(rate: float = 1.0, n: int = 100) -> SimulationParameters:
    parameters = run(trace([(0.0, 16, 10)]), engine=real_engine(), architecture=llama_8b(), blocks=None).parameters
    lengths = JointLengths(FixedLength(500), FixedLength(100))
    return replace(parameters, workload=WorkloadParameters(PoissonArrivals(rate), lengths, n))


def test_a_constant_stream_is_carried_up_to_the_service_rate() -> None:
    capacity = find_capacity(one_seat(ConstantArrivals(1.0)), parse_slo("e2el:p99<=1.2s"), QUICK)
    assert capacity.load == pytest.approx(1.0, rel=0.02)
    assert capacity.above == pytest.approx(1.0, rel=0.03)
    assert capacity.precise


def test_without_a_limit_that_binds_the_growing_queue_does() -> None:
    capacity = find_capacity(one_seat(ConstantArrivals(1.0)), parse_slo("tpot:p99<=10s"), QUICK)
    assert capacity.load == pytest.approx(1.0, rel=0.03)
    assert capacity.binding is None
    assert capacity.missed is not None
    assert capacity.missed.verdict.growing


def test_random_arrivals_match_the_queue_in_closed_form() -> None:
    # M/D/1 with service s: the mean wait is rho s / (2 (1 - rho)). A mean TTFT of 1.1 s means a wait of 1 s: rho = 2/3.
    capacity = find_capacity(one_seat(PoissonArrivals(1.0)), parse_slo("ttft:mean<=1.1s"), replace(QUICK, seeds=5))
    assert np.mean(capacity.by_seed) == pytest.approx(2 / 3, rel=0.05)


def test_clients_of_a_closed_loop_are_counted_whole() -> None:
    capacity = find_capacity(one_seat(ClosedLoop(3)), parse_slo("e2el:p99<=4.5s"), QUICK)
    assert (capacity.load, capacity.above) == (4, 5)
    assert capacity.axis.name == "concurrency"


def test_a_limit_below_a_single_step_is_out_of_reach() -> None:
    capacity = find_capacity(one_seat(PoissonArrivals(1.0)), parse_slo("ttft:p99<=50ms"), QUICK)
    assert capacity.load is None
    assert capacity.interval is None
    assert capacity.binding is not None
    assert capacity.binding.value_ms is not None
    assert capacity.binding.value_ms >= 100
    assert capacity_figures(capacity)["floor_hit"]


def test_twice_the_search_gives_the_same_answer() -> None:
    slo = parse_slo("ttft:p90<=200ms tpot:p90<=20ms")
    first, second = (capacity_figures(find_capacity(chat(), slo, QUICK)) for _ in range(2))
    assert first == second


def test_the_answer_passes_and_the_next_load_does_not() -> None:
    capacity = find_capacity(chat(), parse_slo("ttft:p90<=200ms tpot:p90<=20ms"), QUICK)
    assert capacity.at is not None
    assert capacity.at.verdict.met
    assert capacity.missed is not None
    assert not capacity.missed.verdict.met
    assert capacity.load is not None
    assert capacity.missed.load <= capacity.load * 1.02 * (1 + 1e-9)
    assert len(capacity.probes) <= 20


def test_the_interval_holds_the_models_error_and_the_seeds() -> None:
    options = CapacityOptions(seeds=2)
    capacity = find_capacity(chat(), parse_slo("tpot:p90<=15ms"), options)
    assert capacity.interval is not None
    low, high = capacity.interval
    assert capacity.slow is not None
    assert capacity.fast is not None
    assert capacity.load is not None
    assert low <= capacity.slow < capacity.load < capacity.fast <= high
    # Steps 10 % longer cost at least 10 % of the rate, since each also has a tighter limit to meet.
    assert capacity.slow < capacity.load / 1.09


def test_slower_times_are_those_of_a_slower_engine() -> None:
    # Steps of 0.12 s in themselves, and steps of 0.1 s of which each is said to take 20 % longer.
    slo = parse_slo("ttft:mean<=1.1s")
    itself = find_capacity(one_seat(PoissonArrivals(1.0), step_s=0.12), slo, QUICK)
    said = find_capacity(one_seat(PoissonArrivals(1.0)), slo, QUICK, slower=1.2)
    assert itself.load is not None
    assert said.load == pytest.approx(itself.load, rel=0.02)


def test_more_requests_are_drawn_where_many_are_at_once() -> None:
    capacity = find_capacity(one_seat(ClosedLoop(3)), parse_slo("e2el:mean<=400s"), QUICK)
    assert capacity.load is not None
    assert capacity.requests >= 9 * capacity.load


def test_per_cohort_needs_cohorts() -> None:
    with pytest.raises(ConfigError, match="cohorts: is missing"):
        find_capacity(chat(), parse_slo("ttft:p90<=1s"), per_cohort=True)


def test_a_batch_has_no_load_to_search() -> None:
    with pytest.raises(ConfigError, match=r"workload.arrivals: batch sends everything at once"):
        find_capacity(one_seat(BatchArrivals()), parse_slo("ttft:p90<=1s"))


@pytest.mark.parametrize(
    ("arrivals", "nominal"),
    [
        (PoissonArrivals(3.0), 3.0),
        (GammaArrivals.from_cv(3.0, 2.0), 3.0),
        (TraceArrivals(np.arange(101) / 4.0), 4.0),
        (ScheduleArrivals((0.0, 10.0), (2.0, 6.0), period_s=20.0), pytest.approx(4.0, rel=0.3)),
    ],
)
def test_arrivals_come_faster_in_the_same_pattern(arrivals: Arrivals, nominal: float) -> None:
    parameters = one_seat(arrivals)
    workload = replace(parameters.workload, num_requests=101)
    parameters = replace(parameters, workload=workload)
    axis = load_axis(parameters)
    assert axis.nominal == nominal
    twice = at_load(parameters, axis, 2 * axis.nominal, 101).workload.arrivals
    assert not isinstance(twice, ClosedLoop)
    assert not isinstance(arrivals, ClosedLoop)
    slow, fast = (a.times(50, np.random.default_rng(1)) for a in (arrivals, twice))
    if not isinstance(arrivals, ScheduleArrivals):
        np.testing.assert_allclose(fast, slow / 2)
    assert fast[-1] < slow[-1]


def test_a_trace_has_no_more_requests_than_were_recorded() -> None:
    prompts, outputs = np.full(60, 16), np.full(60, 10)
    parameters = replace(
        one_seat(PoissonArrivals(1.0)), workload=with_lengths(TraceArrivals(np.arange(60.0)), prompts, outputs)
    )
    capacity = find_capacity(parameters, parse_slo("e2el:p90<=2s"), QUICK)
    assert capacity.requests == 60


def test_seeds_that_differ_widen_the_interval() -> None:
    assert seed_half_width([5.0]) == 0
    assert seed_half_width([5.0, 5.0, 5.0]) == 0
    assert seed_half_width([4.9, 5.0, 5.1]) == pytest.approx(4.30265 * 0.1 / 3**0.5 / 5)
