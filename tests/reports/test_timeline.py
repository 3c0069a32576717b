"""The trace of a run, held against what the trace-event format requires."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import Any

import pytest

from builders import clock_engine, run, trace
from servecast.model.simulation import SimulationResult
from servecast.reports.timeline import timeline

# Event type -> fields without which viewers refuse or misplace it.
REQUIRED = {
    "M": {"name", "pid", "args"},
    "X": {"name", "cat", "ts", "dur", "pid", "tid", "args"},
    "C": {"name", "ts", "pid", "args"},
    "b": {"name", "cat", "id", "ts", "pid", "tid"},
    "e": {"name", "cat", "id", "ts", "pid", "tid"},
}
CROWD = trace([(0.5 * i, 40, 60) for i in range(20)])


def events(result: SimulationResult) -> list[dict[str, Any]]:
    document = json.loads(timeline(result).to_json())
    assert set(document) == {"displayTimeUnit", "otherData", "traceEvents"}
    return list(document["traceEvents"])


def phases(result: SimulationResult, id: int) -> list[tuple[str, float, float]]:
    """(name, begin in s, end in s) of what request `id` went through."""
    begun = [(e["name"], e["ts"] / 1e6) for e in events(result) if e["ph"] == "b" and e["id"] == str(id)]
    ended = {(e["name"], e["ts"] / 1e6) for e in events(result) if e["ph"] == "e" and e["id"] == str(id)}
    return [(name, start, min(end for n, end in ended if n == name and end >= start)) for name, start in begun]


@pytest.mark.parametrize("mode", ["recompute", "swap"])
@pytest.mark.parametrize("replicas", [1, 2])
def test_every_event_has_the_fields_that_its_type_requires(mode: str, replicas: int) -> None:
    found = events(run(CROWD, engine=clock_engine(0.1), blocks=20, preemption=mode, replicas=replicas))
    assert {event["ph"] for event in found} == set(REQUIRED)
    for event in found:
        assert REQUIRED[event["ph"]] <= set(event)
        assert event["pid"] in range(replicas)
        assert event.get("ts", 0) >= 0
        assert event.get("dur", 0) >= 0
        if event["ph"] == "C":
            assert all(isinstance(value, int | float) for value in event["args"].values())
    names = {event["args"]["name"] for event in found if event["name"] == "process_name"}
    assert names == {f"replica {i}" for i in range(replicas)}


@pytest.mark.parametrize("mode", ["recompute", "swap"])
def test_async_spans_are_nested_and_closed(mode: str) -> None:
    open_spans: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for event in events(run(CROWD, engine=clock_engine(0.1), blocks=20, preemption=mode)):
        if event["ph"] == "b":
            open_spans[event["id"]].append((event["name"], event["ts"]))
        elif event["ph"] == "e":
            name, start = open_spans[event["id"]].pop()
            assert name == event["name"]
            assert event["ts"] >= start
    assert len(open_spans) == 20
    assert not any(open_spans.values())


def test_a_requests_way_by_hand() -> None:
    # As in the test of interruptions: steps of 1 s, the second request goes at 1 s, is back at 3, has a token at 4.
    result = run(trace([(0.0, 32, 3), (0.0, 32, 3)]), engine=clock_engine(1.0), blocks=4)
    assert phases(result, 0) == [("request 0", 0, 3), ("queued", 0, 0), ("prefill", 0, 1), ("decode", 1, 3)]
    assert phases(result, 1)[1:] == [
        ("queued", 0, 0),
        ("prefill", 0, 1),
        ("preempted", 1, 3),
        ("prefill", 3, 4),
        ("decode", 4, 5),
    ]


def test_steps_carry_their_batch_and_runs_of_steps_their_number() -> None:
    steps = [e for e in events(run(trace([(0.0, 64, 11)]), engine=clock_engine(1.0))) if e["ph"] == "X"]
    assert [(step["name"], step["ts"], step["dur"]) for step in steps] == [
        ("prefill", 0, 1e6),
        ("decode, 10 steps", 1e6, 1e7),
    ]
    assert steps[0]["args"] | {"waiting": 0, "running": 1, "prefill_tokens": 64} == steps[0]["args"]
    assert steps[1]["args"]["steps"] == 10


def test_a_long_run_is_cut_and_what_is_missing_is_counted() -> None:
    result = run(CROWD, engine=clock_engine(0.1), blocks=20)
    cut = timeline(result, most_events=100)
    assert len(cut.events) < 130
    assert cut.until_s is not None
    assert cut.left_out_requests == (result.requests["arrival_s"] > cut.until_s).sum() > 0
    assert cut.left_out_steps > 0
    assert json.loads(cut.to_json())["otherData"]["left_out_requests"] == cut.left_out_requests
    assert timeline(result).until_s is None


def test_rejected_and_unfinished_requests_are_there() -> None:
    result = run(trace([(0.0, 32, 3), (0.0, 9000, 3)]), engine=clock_engine(1.0))
    (rejected,) = [e for e in events(result) if e["ph"] == "b" and e["name"] == "request 1"]
    assert rejected["args"]["state"] == "rejected"
    assert rejected["args"]["reason"] == "over_max_model_len"
