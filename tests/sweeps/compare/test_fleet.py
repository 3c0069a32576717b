"""Fleets: the smallest number of replicas, told by simulations of all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from builders import clock_engine, run, trace
from servecast.model.arrivals import PoissonArrivals
from servecast.model.lengths import FixedLength, JointLengths
from servecast.model.simulation import SimulationParameters
from servecast.model.slo import parse_slo
from servecast.model.workload import WorkloadParameters
from servecast.sweeps.capacity.capacity import CapacityOptions, find_capacity
from servecast.sweeps.compare.fleet import LARGEST_SIMULATED, size_fleet, smallest

QUICK = CapacityOptions(seeds=1, band=False)


@pytest.mark.parametrize("guess", [1, 5, 17, 18, 40, 300])
@pytest.mark.parametrize("answer", [1, 2, 17, 120])
def test_the_smallest_number_is_found_from_any_guess(guess: int, answer: int) -> None:
    tried: list[int] = []

    def passes(number: int) -> bool:
        tried.append(number)
        return number >= answer

    assert smallest(passes, guess, 20) == (answer - 1, answer)
    assert len(tried) == len(set(tried))


def test_what_is_far_from_the_guess_may_stay_open() -> None:
    missed, passed = smallest(lambda number: number >= 1000, 1, 4)
    assert missed == 8
    assert passed is None


def one_seat(rate: float) -> SimulationParameters:
    """A replica that serves one request a second, one after the other."""
    parameters = run(
        trace([(0.0, 16, 10)]), engine=clock_engine(0.1), max_num_seqs=1, max_num_batched_tokens=64
    ).parameters
    lengths = JointLengths(FixedLength(16), FixedLength(10))
    return replace(parameters, workload=WorkloadParameters(PoissonArrivals(rate), lengths, 1000))


def test_n_meets_the_slo_and_n_minus_1_does_not() -> None:
    parameters = one_seat(4.0)
    capacity = find_capacity(parameters, parse_slo("ttft:p90<=3s"), QUICK)
    fleet = size_fleet(parameters, capacity, 4.0)
    assert fleet.verified
    assert fleet.at is not None
    assert fleet.at.verdict.met
    assert fleet.below is not None
    assert not fleet.below.verdict.met
    assert fleet.result is not None
    assert fleet.result.parameters.replicas == fleet.replicas
    assert fleet.replicas - 1 < fleet.needed <= fleet.replicas
    # Four requests a second take more than four replicas; dealt out in turn they arrive evenly, so not many more.
    assert 5 <= fleet.replicas <= 6


def test_one_replica_has_none_below_it() -> None:
    parameters = one_seat(0.2)
    capacity = find_capacity(parameters, parse_slo("ttft:p90<=3s"), QUICK)
    fleet = size_fleet(parameters, capacity, 0.2)
    assert (fleet.replicas, fleet.below, fleet.verified) == (1, None, True)


def test_huge_fleets_are_computed() -> None:
    parameters = one_seat(1.0)
    capacity = find_capacity(parameters, parse_slo("ttft:p90<=3s"), QUICK)
    assert capacity.load is not None
    fleet = size_fleet(parameters, capacity, 1000.0)
    assert fleet.replicas == pytest.approx(1000 / capacity.load, abs=1)
    assert fleet.replicas > LARGEST_SIMULATED
    assert not fleet.verified
    assert fleet.simulations == 0
