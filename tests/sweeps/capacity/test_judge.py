"""The verdict on runs whose latencies are known."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from builders import clock_engine, run, trace
from servecast.model.cohorts import CohortParameters
from servecast.model.simulation import SimulationResult, run_simulation
from servecast.model.slo import parse_slo
from servecast.sweeps.capacity.judge import Question, hopeless_stop, judge, judged_requests, needed_requests


def steady(count: int = 100, step_s: float = 0.1, **identity: object) -> SimulationResult:
    """One request a second, alone: TTFT and TPOT are a step."""
    return run(trace([(float(i), 16, 5) for i in range(count)], **identity), engine=clock_engine(step_s))


def overloaded(count: int = 400) -> SimulationResult:
    """Each request needs a second of the only seat, and one comes every 0.8 s."""
    requests = trace([(0.8 * i, 16, 10) for i in range(count)])
    return run(requests, engine=clock_engine(0.1), max_num_seqs=1, max_num_batched_tokens=64)


def question(slo: str, **settings: object) -> Question:
    return replace(Question(parse_slo(slo)), **settings)  # type: ignore[arg-type]  # fields of Question


def test_the_middle_of_a_run_is_judged() -> None:
    assert judged_requests(100) == slice(10, 90)
    assert judge(steady(), question("ttft:p99<=1s")).judged == 80


def test_values_are_those_of_the_judged_requests() -> None:
    verdict = judge(steady(), question("ttft:p99<=1s tpot:mean<=50ms"))
    assert not verdict.met
    tpot, ttft = verdict.limits  # worst first
    assert tpot.name == "tpot:mean<=50ms"
    assert tpot.value_ms == pytest.approx(100)
    assert ttft.ratio == pytest.approx(0.1)
    assert ttft.requests == 80
    assert verdict.ratio == pytest.approx(2)


def test_limits_on_single_requests_hold_for_a_share_of_them() -> None:
    # Every tenth prompt takes two steps more.
    slow = run(trace([(float(i), 48 if i % 10 == 5 else 16, 5) for i in range(100)]), engine=clock_engine(0.1),
               max_num_batched_tokens=16, max_num_seqs=4)  # fmt: skip
    assert judge(slow, question("ttft:150 tpot:150", attainment=0.90)).met
    strict = judge(slow, question("ttft:150 tpot:150", attainment=0.95))
    assert not strict.met
    assert strict.limits[0].share == pytest.approx(0.9)
    assert strict.limits[0].ratio == pytest.approx(2.0)


def test_each_cohort_must_meet_the_limits() -> None:
    result = steady()
    parameters = replace(result.parameters, cohorts=CohortParameters("prompt_tokens", (10, 100)))
    verdict = judge(replace(result, parameters=parameters), question("ttft:p99<=1s", per_cohort=True))
    assert [limit.cohort for limit in verdict.limits] == ["prompt 11-100"]


def test_a_queue_that_grows_fails_though_all_limits_are_met() -> None:
    verdict = judge(overloaded(), question("ttft:p99<=1000s"))
    assert verdict.limits[0].met
    assert verdict.growing
    assert not verdict.met
    assert verdict.ratio == math.inf


def test_growth_is_not_asked_for_where_the_load_varies_by_itself() -> None:
    assert judge(overloaded(), question("ttft:p99<=1000s", steady=False)).met


def test_requests_turned_away_miss_every_limit() -> None:
    result = overloaded()
    turned = {id: "queue_full" for id in range(200, 260)}
    state = result.requests["state"].copy()
    state[200:260] = 2
    verdict = judge(
        replace(result, requests={**result.requests, "state": state}, reasons=turned), question("ttft:p90<=1000s")
    )
    assert verdict.limits[0].ratio == math.inf
    assert verdict.limits[0].value_ms == math.inf


def test_requests_that_could_never_run_are_counted_and_not_judged() -> None:
    prompts = [(float(i), 100_000 if i == 50 else 16, 5) for i in range(100)]
    result = run(trace(prompts), engine=clock_engine(0.1))
    verdict = judge(result, question("ttft:p99<=1s"))
    assert verdict.met
    assert verdict.unservable == {"over_max_model_len": 1}
    assert verdict.limits[0].requests == 79


def test_needed_requests_grow_with_the_percentile() -> None:
    assert needed_requests(parse_slo("ttft:p50<=1s"), 0.99) == 1000
    assert needed_requests(parse_slo("ttft:p99<=1s"), 0.99) == 2500
    assert needed_requests(parse_slo("ttft:500"), 0.99) == 2500
    assert needed_requests(parse_slo("ttft:p99.9<=1s"), 0.99) == 25000


@pytest.mark.parametrize("slo", ["ttft:p90<=5s", "ttft:mean<=5s", "tpot:p50<=50ms", "ttft:5000", "e2el:p99<=3s"])
def test_a_run_is_stopped_only_where_it_would_have_failed(slo: str) -> None:
    whole = overloaded()
    asked = question(slo, attainment=0.9)
    stop = hopeless_stop(whole.parameters, whole.workload, asked)
    part = run_simulation(whole.parameters, stop=stop)
    assert stop.stopped
    assert not judge(whole, asked).met
    assert np.isnan(part.requests["finish_s"]).sum() > 100


def test_a_run_that_passes_is_not_stopped() -> None:
    result = steady()
    asked = question("ttft:p99<=150ms tpot:150 e2el:mean<=501ms")
    stop = hopeless_stop(result.parameters, result.workload, asked)
    run_simulation(result.parameters, stop=stop)
    assert not stop.stopped
    assert judge(result, asked).met


def test_slower_times_mean_tighter_limits() -> None:
    slower = question("ttft:p99<=1s tpot:p95<=60ms e2el:mean<=12s").slower(1.2, 2.0)
    assert [limit.limit_s for limit in slower.slo.limits] == pytest.approx([0.5, 0.05, 10.0])
