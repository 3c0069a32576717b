"""Knobs and what-if questions on replicas whose capacity is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from builders import clock_engine, run, trace
from servecast.model.arrivals import Arrivals, ConstantArrivals, TraceArrivals
from servecast.model.lengths import FixedLength, JointLengths
from servecast.model.simulation import SimulationParameters
from servecast.model.slo import parse_slo
from servecast.model.workload import WorkloadParameters
from servecast.sweeps.capacity.capacity import CapacityOptions, find_capacity
from servecast.sweeps.compare.variants import BURSTS, OUTPUTS, SLOW, best_knobs, sensitivities

QUICK = CapacityOptions(seeds=1, band=False)
SLO = parse_slo("e2el:p90<=1.5s")


def replica(seats: int = 1, arrivals: Arrivals | None = None) -> SimulationParameters:
    """Each of `seats` serves a request a second, whatever the others do: steps take 0.1 s, requests ten steps."""
    parameters = run(
        trace([(0.0, 16, 10)]), engine=clock_engine(0.1), max_num_seqs=seats, max_num_batched_tokens=256
    ).parameters
    lengths = JointLengths(FixedLength(16), FixedLength(10))
    workload = WorkloadParameters(arrivals or ConstantArrivals(1.0), lengths, 1000)
    return replace(parameters, workload=workload)


def test_the_settings_that_carry_most_are_kept() -> None:
    knobs = {"max_num_seqs": (1, 2, 4), "max_num_batched_tokens": (128, 256)}
    best, trials, load = best_knobs(replica(), SLO, knobs, QUICK, 0.99)
    assert (best.scheduler.max_num_seqs, best.scheduler.max_num_batched_tokens) == (4, 256)
    assert load == pytest.approx(4.0, rel=0.05)
    assert [trial.settings["max_num_seqs"] for trial in trials] == [1, 2, 4, 4]
    # A smaller budget carries no more: told by one simulation, without a capacity of its own.
    assert trials[-1].capacity is None
    assert trials[-1].problem is None


def test_a_choice_that_no_engine_takes_says_why() -> None:
    _, trials, _ = best_knobs(replica(), SLO, {"max_num_seqs": (512,)}, QUICK, 0.99)
    assert trials[-1].problem == "the token budget is below max_num_seqs"


def test_what_no_load_meets_is_not_tried_further() -> None:
    _, trials, load = best_knobs(replica(), parse_slo("ttft:p90<=1ms"), {"max_num_seqs": (2,)}, QUICK, 0.99)
    assert load is None
    assert len(trials) == 1


def test_what_if_answers_are_those_of_changed_replicas() -> None:
    parameters = replica()
    base = find_capacity(parameters, parse_slo("tpot:p90<=1s"), QUICK)
    found = sensitivities(parameters, parse_slo("tpot:p90<=1s"), base, QUICK, 0.99)
    assert base.load == pytest.approx(1.0, rel=0.03)
    assert found[SLOW] == pytest.approx(1.0 / 1.1, rel=0.04)  # steps of 0.11 s
    assert found[OUTPUTS] == pytest.approx(1.0 / 1.3, rel=0.04)  # 13 steps a request


def test_bursts_carry_less_where_waiting_counts() -> None:
    parameters, slo = replica(), parse_slo("e2el:p90<=3s")
    base = find_capacity(parameters, slo, QUICK)
    bursty = sensitivities(parameters, slo, base, QUICK, 0.99)[BURSTS]
    assert base.load is not None
    assert bursty is not None
    assert bursty < 0.7 * base.load


def test_bursts_make_no_sense_for_a_trace() -> None:
    parameters = replica(arrivals=TraceArrivals(np.arange(1000.0)))
    base = find_capacity(parameters, SLO, QUICK)
    assert set(sensitivities(parameters, SLO, base, QUICK, 0.99)) == {SLOW, OUTPUTS}
