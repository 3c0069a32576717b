"""The ranking: order, ties, reasons, the sentence, and what changes it."""

from __future__ import annotations

from typing import Any

import pytest

from servecast.sweeps.compare.ranking import (
    between,
    is_tie,
    rank,
    recommendation,
    sensitivity_rows,
    size_interval,
    whole,
)


def row(
    label: str, usd: float | None, replicas: int = 4, *, low: float = 1.0, high: float = 1.0, **more: Any
) -> dict[str, Any]:
    """A candidate of one GPU a replica. low, high: ends of its cost over `usd`."""
    gpus_low, gpus_high = round(replicas * low), round(replicas * high)
    return {
        "label": label,
        "gpu": label.split()[0],
        "status": "ok",
        "usd_per_hour": usd,
        "usd_per_hour_low": None if usd is None else usd * low,
        "usd_per_hour_high": None if usd is None else usd * high,
        "gpus": replicas,
        "gpus_low": gpus_low,
        "gpus_high": gpus_high,
        "gpus_text": between(gpus_low, gpus_high, replicas),
        "gpus_per_replica": 1,
        "replicas": replicas,
        "replicas_needed": replicas - 0.1,
        "spare_replicas": 0,
        "capacity": 5.0,
        "limit": "tpot:p95",
        "sensitivity": None,
        "run": {"p95_tpot_ms": 50.0},
        **more,
    }


def test_the_cheapest_comes_first_and_the_others_say_why_not() -> None:
    ranked = rank([row("b TP1", 30.0), row("a TP1", 20.0), row("c TP1", 90.0)])
    assert [(r["rank"], r["label"]) for r in ranked] == [(1, "a TP1"), (2, "b TP1"), (3, "c TP1")]
    assert ranked[0]["reason"] == "cheapest"
    assert ranked[1]["reason"] == "costs 50% more; tpot:p95 binds"
    assert ranked[2]["reason"] == "costs 4.5 times as much; tpot:p95 binds"
    assert recommendation(ranked) == (
        "4 x a TP1 (4 a): $20.00 an hour. Next: 4 x b TP1 (4 b), $30.00 an hour, 50% dearer."
    )


def test_overlapping_intervals_are_a_tie() -> None:
    ranked = rank([row("a TP1", 20.0, low=0.75, high=1.25), row("b TP1", 26.0, low=0.75, high=1.25)])
    assert ranked[1]["tie"]
    assert ranked[1]["reason"] == "tie: costs 30% more, error bands overlap"
    assert recommendation(ranked) == (
        "4 x a TP1 (4 a, 3 to 5 within the error band): $20.00 an hour. A tie within the error bands with b TP1 (+30%)."
    )
    assert not is_tie(row("a", 20.0, high=1.25), row("b", 26.0, low=0.97))
    assert is_tie(row("a", 20.0), row("b", 20.2))


def test_the_next_other_gpu_is_named_beside_a_tie() -> None:
    ranked = rank([row("a TP1", 20.0), row("a TP2", 20.0), row("b TP1", 31.0)])
    assert "tie within the error bands with a TP2 (+0%). Next: 4 x b TP1" in recommendation(ranked)


def test_without_a_price_a_candidate_comes_after_the_others() -> None:
    ranked = rank([row("free TP1", None, 1), row("a TP1", 20.0)])
    assert [r["label"] for r in ranked] == ["a TP1", "free TP1"]
    assert ranked[1]["reason"] == "no price known"
    assert "no candidate has a price" in recommendation(rank([row("free TP1", None, 1)]))


def test_what_was_not_simulated_is_not_priced() -> None:
    (only,) = rank([row("tiny TP1", None, 5000, run=None)])
    assert only["reason"] == "so many replicas were not simulated, and so not priced"


def test_candidates_that_cannot_come_last_with_their_reason() -> None:
    lost = [
        {"label": "x TP1", "status": "does not fit", "reason": "does not fit: 3.38 GiB short on each GPU"},
        {"label": "y TP1", "status": "out of reach", "reason": "ttft:p99<=2000ms is 3,781 ms even so"},
    ]
    ranked = rank([*lost, row("a TP1", 20.0)])
    assert [(r["label"], r["rank"]) for r in ranked] == [("a TP1", 1), ("y TP1", None), ("x TP1", None)]
    assert recommendation(rank(lost)) == "No candidate carries this load within the limits."


def test_sizes_are_whole_replicas() -> None:
    assert [whole(x) for x in (3.0, 3.0000000001, 3.01)] == [3, 3, 4]
    fleet = {"replicas": 6, "needed_low": 5.3, "needed_high": 6.4}
    assert size_interval(fleet, 0) == (6, 7)
    assert size_interval(fleet, 1) == (7, 8)
    assert size_interval({"replicas": 6, "needed_low": 0.2, "needed_high": None}, 0) == (1, None)
    assert between(6, 7, 6) == "6 to 7"
    assert between(6, None, 6) == "6 or more"
    assert between(6, 6, 6) == "6"


def test_a_question_that_changes_the_winner_says_so() -> None:
    # b is dearer, but outputs that are longer hurt a alone.
    a = row("a TP1", 20.0, sensitivity={"model_slow": 4.5, "outputs_longer": 2.5, "bursts": 4.9})
    b = row("b TP1", 30.0, sensitivity={"model_slow": 4.5, "outputs_longer": 5.0, "bursts": None})
    predicted, slow, more, longer, bursts = sensitivity_rows(rank([a, b]))
    assert (predicted["winner"], predicted["replicas"], predicted["changed"]) == ("a TP1", 4, False)
    assert (slow["winner"], slow["replicas"], slow["usd_per_hour"]) == ("a TP1", 5, 25.0)
    assert (more["winner"], more["replicas"]) == ("a TP1", 5)
    assert (longer["winner"], longer["changed"], longer["usd_per_hour"]) == ("b TP1", True, 30.0)
    assert longer["next_extra_cost"] == pytest.approx(40 / 30 - 1)
    assert (bursts["winner"], bursts["next"]) == ("a TP1", None)


def test_a_question_that_nobody_could_answer_is_left_out() -> None:
    rows = sensitivity_rows(rank([row("a TP1", 20.0, sensitivity={"model_slow": 4.5, "outputs_longer": 4.0})]))
    assert [r["question"][:4] for r in rows] == ["as p", "ever", "20% ", "outp"]


def test_without_questions_there_is_no_table() -> None:
    assert sensitivity_rows(rank([row("a TP1", 20.0)])) == []
