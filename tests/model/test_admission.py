"""Admission rules: who is turned away at arrival."""

from __future__ import annotations

import math

import pytest

from builders import clock_engine, run, trace
from servecast.model.admission import (
    AdmissionParameters,
    MaxQueue,
    PredictedTtft,
    QueueState,
    admission_rule,
)
from servecast.model.request import Request


def test_a_full_queue_turns_away_whoever_comes() -> None:
    rule = MaxQueue(3)
    assert rule.refuses(Request(0, 9, 9), QueueState(waiting=2, waiting_tokens=9999)) is None
    assert rule.refuses(Request(0, 1, 1), QueueState(waiting=3, waiting_tokens=3)) == "queue_full"


def test_ttft_is_predicted_from_the_tokens_ahead_at_the_rate_of_service() -> None:
    """At 1,000 tokens/s, 400 tokens ahead and 100 of its own take 0.5 s."""
    rule = PredictedTtft(0.5, first_rate=1000.0)
    assert rule.predicted_s(Request(0, 100, 1), QueueState(4, 400)) == pytest.approx(0.5)
    assert rule.refuses(Request(0, 99, 1), QueueState(4, 400)) is None
    assert rule.refuses(Request(0, 102, 1), QueueState(4, 400)) == "slo"


def test_the_rate_becomes_that_at_which_prompts_are_served() -> None:
    rule = PredictedTtft(1.0, first_rate=1000.0)
    for _ in range(10_000):
        rule.served(0.01, 5)  # 500 tokens/s for 100 s
    assert rule.predicted_s(Request(0, 250, 1), QueueState(0, 0)) == pytest.approx(0.5, rel=1e-3)


def test_a_step_weighs_less_by_a_factor_e_each_ten_seconds() -> None:
    """From 0.1 s and 100 tokens: after a step of 10 s with 200 tokens, 100/e + 200 in 0.1/e + 10 (1 - 1/e) s."""
    rule = PredictedTtft(1.0, first_rate=1000.0)
    rule.served(10.0, 200)
    rate = (100 / math.e + 200) / (0.1 / math.e + 10 * (1 - 1 / math.e))
    assert rule.predicted_s(Request(0, 60, 1), QueueState(1, 40)) == pytest.approx(100 / rate)


@pytest.mark.parametrize("parts", [2, 7, 1000])
def test_decode_steps_count_alike_one_by_one_or_as_one(parts: int) -> None:
    joined, split = PredictedTtft(1.0, 1000.0), PredictedTtft(1.0, 1000.0)
    joined.served(3.0, 0)
    for _ in range(parts):
        split.served(3.0 / parts, 0)
    asked = Request(0, 100, 1), QueueState(0, 0)
    assert split.predicted_s(*asked) == pytest.approx(joined.predicted_s(*asked), rel=1e-12)


def test_rules_by_name() -> None:
    assert admission_rule(AdmissionParameters(), 1.0) is None
    assert isinstance(admission_rule(AdmissionParameters("max_queue", 5), 1.0), MaxQueue)
    assert isinstance(admission_rule(AdmissionParameters("slo", ttft_s=1.0), 1.0), PredictedTtft)


def test_of_five_at_once_the_queue_takes_two() -> None:
    result = run(trace([(0.0, 4, 2)] * 5), max_num_seqs=1, admission=AdmissionParameters("max_queue", 2))
    assert result.reasons == {2: "queue_full", 3: "queue_full", 4: "queue_full"}
    assert result.requests["finish_s"][:2].tolist() == [2.0, 4.0]


def test_a_queue_of_nobody_lets_in_who_need_not_wait() -> None:
    """Two places: two at once start, the third would wait. At 5 s the engine is idle again."""
    workload = trace([(0.0, 4, 3), (0.0, 4, 3), (0.0, 4, 3), (5.0, 4, 3)])
    result = run(workload, max_num_seqs=2, admission=AdmissionParameters("max_queue", 0))
    assert result.reasons == {2: "queue_full"}


def test_nor_if_the_pool_has_no_room_for_it() -> None:
    """One sequence of 8 tokens fills two of the three blocks of 4."""
    workload = trace([(0.0, 8, 4), (0.5, 8, 4)])
    settings = {"blocks": 3, "block_size": 4, "admission": AdmissionParameters("max_queue", 0)}
    assert run(workload, **settings).reasons == {1: "queue_full"}  # type: ignore[arg-type]


def test_who_would_wait_too_long_is_turned_away() -> None:
    """Steps of 1 s, one prompt each: the measured rate is soon one prompt of 100 tokens a second."""
    workload = trace([(i * 0.25, 100, 1) for i in range(80)])
    rule = AdmissionParameters("slo", ttft_s=4.0)
    engine = clock_engine()
    free, guarded = (
        run(workload, engine=engine, max_num_batched_tokens=100, max_num_seqs=1, admission=admission)
        for admission in (AdmissionParameters(), rule)
    )
    assert set(guarded.reasons.values()) == {"slo"}
    ttft = guarded.requests["first_token_s"] - guarded.requests["arrival_s"]
    late = ttft[40:]
    assert max(late[late == late]) < 5.5
    assert (free.requests["first_token_s"] - free.requests["arrival_s"]).max() > 50
