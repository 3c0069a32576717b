"""The drawn workload: determinism, independent streams, and what it says of itself."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from servecast.hardware.errors import ConfigError, InvariantError
from servecast.model.arrivals import (
    BatchArrivals,
    ClosedLoopArrivals,
    ConstantArrivals,
    GammaArrivals,
    PoissonArrivals,
    TraceArrivals,
)
from servecast.model.lengths import (
    EmpiricalLengths,
    FixedLength,
    JointLengths,
    LognormalLength,
    UniformLength,
)
from servecast.model.workload import Workload, WorkloadParameters, draw_workload

LENGTHS = JointLengths(LognormalLength(1000, 1.0, max=8192), UniformLength(50, 400), rank_correlation=0.3)
POISSON = WorkloadParameters(PoissonArrivals(5.0), LENGTHS, num_requests=1000)


def draw(params: WorkloadParameters, seed: int = 0) -> Workload:
    workload = draw_workload(params, np.random.SeedSequence(seed))
    workload.check()
    return workload


def test_the_same_seed_draws_the_same_workload_also_from_the_same_seed_object() -> None:
    seed = np.random.SeedSequence(42)
    first, second = draw_workload(POISSON, seed), draw_workload(POISSON, seed)
    assert first.arrival_s is not None
    assert second.arrival_s is not None
    assert np.array_equal(first.arrival_s, second.arrival_s)
    assert np.array_equal(first.prompt_tokens, second.prompt_tokens)
    assert np.array_equal(first.output_tokens, second.output_tokens)
    assert not np.array_equal(first.prompt_tokens, draw(POISSON, 43).prompt_tokens)


def test_the_arrivals_do_not_change_the_lengths_nor_the_lengths_the_arrivals() -> None:
    base = draw(POISSON)
    bursty = draw(replace(POISSON, arrivals=GammaArrivals(50.0, 0.2)))
    closed = draw(replace(POISSON, arrivals=ClosedLoopArrivals(8)))
    for other in (bursty, closed):
        assert np.array_equal(base.prompt_tokens, other.prompt_tokens)
        assert np.array_equal(base.output_tokens, other.output_tokens)
    fixed = draw(replace(POISSON, lengths=JointLengths(FixedLength(1), FixedLength(1))))
    assert np.array_equal(np.asarray(base.arrival_s), np.asarray(fixed.arrival_s))


def test_a_longer_run_begins_with_the_shorter_one() -> None:
    short, long = draw(POISSON), draw(replace(POISSON, num_requests=3000))
    assert np.array_equal(short.prompt_tokens, long.prompt_tokens[:1000])
    assert np.array_equal(short.output_tokens, long.output_tokens[:1000])
    assert np.array_equal(np.asarray(short.arrival_s), np.asarray(long.arrival_s)[:1000])


def test_arrivals_prompts_and_outputs_are_independent_streams() -> None:
    same = LognormalLength(1000, 1.0)
    workload = draw(WorkloadParameters(PoissonArrivals(1.0), JointLengths(same, same), 20_000))
    columns = (
        np.diff(np.asarray(workload.arrival_s), prepend=0),
        workload.prompt_tokens,
        workload.output_tokens,
    )
    correlations = np.corrcoef(np.log(columns))
    assert np.abs(correlations - np.eye(3)).max() < 0.03


def test_the_offered_rate() -> None:
    assert draw(replace(POISSON, arrivals=ConstantArrivals(4.0))).request_rate == pytest.approx(4.0)
    assert draw(replace(POISSON, num_requests=100_000)).request_rate == pytest.approx(5.0, rel=0.02)
    assert draw(replace(POISSON, arrivals=BatchArrivals())).request_rate == math.inf
    assert draw(replace(POISSON, arrivals=ClosedLoopArrivals(8))).request_rate is None
    assert draw(replace(POISSON, num_requests=1)).request_rate is None


def test_a_closed_loop_has_clients_in_place_of_times() -> None:
    workload = draw(replace(POISSON, arrivals=ClosedLoopArrivals(concurrency=8, think_time_s=0.5)))
    assert workload.arrival_s is None
    assert workload.closed_loop == ClosedLoopArrivals(8, 0.5)
    assert len(workload) == 1000


TRACE = EmpiricalLengths(np.array([10, 20, 30]), np.array([1, 2, 3]))


def test_a_trace_brings_its_own_number_of_requests() -> None:
    workload = draw(WorkloadParameters(TraceArrivals(np.array([0.0, 1.0, 4.0])), TRACE, notes=("odd",)))
    assert np.asarray(workload.arrival_s).tolist() == [0.0, 1.0, 4.0]
    assert workload.prompt_tokens.tolist() == [10, 20, 30]
    assert workload.notes == ("odd",)
    assert len(draw(WorkloadParameters(PoissonArrivals(1.0), TRACE))) == 3


def test_recorded_lengths_that_run_out_are_repeated_and_it_says_so() -> None:
    workload = draw(WorkloadParameters(PoissonArrivals(1.0), TRACE, num_requests=4))
    assert workload.prompt_tokens.tolist() == [10, 20, 30, 10]
    assert workload.notes == ("4 requests from 3 recorded lengths: these are repeated in order",)


@pytest.mark.parametrize("arrivals", [PoissonArrivals(1e-6), ClosedLoopArrivals(2, think_time_s=1e6)])
def test_clocks_do_not_run_for_ages(arrivals: PoissonArrivals | ClosedLoopArrivals) -> None:
    with pytest.raises(ConfigError, match=r"workload\.arrivals: make the last request arrive after"):
        draw(replace(POISSON, arrivals=arrivals, num_requests=1000))


def test_without_a_trace_the_number_of_requests_is_needed() -> None:
    with pytest.raises(ConfigError, match="num_requests: is needed"):
        draw(replace(POISSON, num_requests=None))
    with pytest.raises(ConfigError, match="num_requests: must be 1 or more, found 0"):
        replace(POISSON, num_requests=0)


@pytest.mark.parametrize(
    "broken",
    [
        Workload(np.array([1, 2]), np.array([1]), np.array([0.0, 1.0])),
        Workload(np.array([1, 0]), np.array([1, 1]), np.array([0.0, 1.0])),
        Workload(np.array([1, 1]), np.array([1, 1]), np.array([1.0, 0.0])),
        Workload(np.array([1, 1]), np.array([1, 1]), np.array([-1.0, 0.0])),
        Workload(np.array([1, 1]), np.array([1, 1])),
    ],
)
def test_check_finds_an_inconsistent_workload(broken: Workload) -> None:
    with pytest.raises(InvariantError):
        broken.check()
