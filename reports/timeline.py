"""A run as a trace for chrome://tracing and https://ui.perfetto.dev (Trace Event Format, JSON object form).

One process a replica. Its track "steps" has the engine's steps; a run of equal decode steps is one slice, with their
number in its args. Requests are nested async spans: `request 12` around queued, prefill, decode, preempted and swapped.
Counters: KV usage, requests waiting and running. Times in microseconds of simulated time.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from servecast.model.records import STATES
from servecast.model.simulation import SimulationResult

# Viewers grow slow beyond; about 60 MB.
MOST_EVENTS = 400_000

_EVENTS_OF_STEP = 3
_EVENTS_OF_REQUEST = 8
_EVENTS_OF_INTERRUPTION = 6
_REQUESTS = "request"

Event = dict[str, Any]


@dataclass(frozen=True)
class Timeline:
    """until_s: what begins later is left out, None if all is there. left_out_steps counts runs of steps as one."""

    events: list[Event]
    until_s: float | None
    left_out_requests: int
    left_out_steps: int

    def to_json(self) -> str:
        """The file's text, one event a line."""
        about = {
            "left_out_requests": self.left_out_requests,
            "left_out_steps": self.left_out_steps,
            "until_s": self.until_s,
        }
        lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in self.events)
        return f'{{"displayTimeUnit":"ms","otherData":{json.dumps(about)},"traceEvents":[\n{lines}\n]}}\n'


def timeline(result: SimulationResult, most_events: int = MOST_EVENTS) -> Timeline:
    """The trace of `result`. Where it would have more than about `most_events` events it ends earlier than the run."""
    until_s = _until_s(result, most_events)
    starts, arrivals = result.steps["start_s"], result.requests["arrival_s"]
    steps, requests = np.flatnonzero(starts <= until_s), np.flatnonzero(arrivals <= until_s)
    return Timeline(
        events=[*_names(result), *_step_events(result, steps), *_request_events(result, requests)],
        until_s=None if np.isinf(until_s) else until_s,
        left_out_requests=int((arrivals > until_s).sum()),
        left_out_steps=len(starts) - len(steps),
    )


def _until_s(result: SimulationResult, most_events: int) -> float:
    """When the last event begins for which there is room; infinite if that is all."""
    times = [result.steps["start_s"], result.requests["arrival_s"], result.interruptions["preempted_s"]]
    sizes = (_EVENTS_OF_STEP, _EVENTS_OF_REQUEST, _EVENTS_OF_INTERRUPTION)
    amounts = np.repeat(sizes, [len(column) for column in times])
    if amounts.sum() <= most_events:
        return float("inf")
    together = np.concatenate(times)
    order = np.argsort(together, kind="stable")
    return float(together[order][np.searchsorted(amounts[order].cumsum(), most_events)])


def _us(time_s: float) -> float:
    return round(float(time_s) * 1e6, 3)


def _names(result: SimulationResult) -> Iterator[Event]:
    for replica in range(result.parameters.replicas):
        for kind, name in (("process_name", f"replica {replica}"), ("thread_name", "steps")):
            yield {"ph": "M", "name": kind, "pid": replica, "tid": 0, "args": {"name": name}}


def _step_events(result: SimulationResult, chosen: NDArray[np.int64]) -> Iterator[Event]:
    columns = {name: column[chosen].tolist() for name, column in result.steps.items()}
    blocks = result.memory.sequence_pool_blocks
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(columns, values, strict=True))
        place = {"pid": int(row["replica"]), "tid": 0, "ts": _us(row["start_s"])}
        count, usage = int(row["count"]), round(row["used_blocks"] / blocks * 100, 2)
        length_s = count * row["duration_s"] + row["slope_s"] * count * (count - 1) / 2
        whole = {name: int(row[name]) for name in ("decodes", "chunks", "prefill_tokens", "waiting", "running")}
        args = {"steps": count, **whole, "kv_usage_percent": usage, "recompute_ratio": round(row["recompute_ratio"], 4)}
        yield {"ph": "X", "cat": "step", "name": _step_name(row), **place, "dur": _us(length_s), "args": args}
        yield {"ph": "C", "name": "KV usage (%)", **place, "args": {"used": usage}}
        queues = {"waiting": whole["waiting"], "running": whole["running"]}
        yield {"ph": "C", "name": "requests", **place, "args": queues}


def _step_name(row: Mapping[str, float]) -> str:
    if not row["chunks"]:
        return "decode" if row["count"] == 1 else f"decode, {row['count']:.0f} steps"
    return "prefill + decode" if row["decodes"] else "prefill"


@dataclass(frozen=True)
class _Span:
    name: str
    start_s: float
    end_s: float


def _request_events(result: SimulationResult, chosen: NDArray[np.int64]) -> Iterator[Event]:
    columns = {name: column.tolist() for name, column in result.requests.items()}
    interruptions = _interruptions_by_request(result)
    # What never ends is drawn until all that there is to see has ended.
    last_s = float(np.nanmax(np.concatenate([result.requests["finish_s"], result.requests["arrival_s"], [0.0]])))
    for id in chosen.tolist():
        row = {name: column[id] for name, column in columns.items()}
        whole = _Span(f"request {id}", row["arrival_s"], _or(row["finish_s"], max(last_s, row["arrival_s"])))
        args = {
            "prompt_tokens": int(result.workload.prompt_tokens[id]),
            "output_tokens": int(result.workload.output_tokens[id]),
            "state": STATES[row["state"]],
            "preemptions": row["preemptions"],
        }
        if id in result.reasons:
            args["reason"] = result.reasons[id]
            whole = _Span(whole.name, whole.start_s, _or(row["queued_s"], whole.start_s))
        spans = [] if id in result.reasons else _phases(row, interruptions[id], whole.end_s)
        yield from _async(id, max(row["replica"], 0), whole, spans, args)


def _or(value: float, otherwise: float) -> float:
    return otherwise if np.isnan(value) else value


def _interruptions_by_request(result: SimulationResult) -> Mapping[int, list[dict[str, float]]]:
    by_request: dict[int, list[dict[str, float]]] = defaultdict(list)
    columns = {name: column.tolist() for name, column in result.interruptions.items()}
    for values in zip(*columns.values(), strict=True):
        row = dict(zip(columns, values, strict=True))
        by_request[int(row["id"])].append(row)
    return by_request


def _phases(row: Mapping[str, float], interruptions: list[dict[str, float]], end_s: float) -> list[_Span]:
    """What a request goes through, one after the other."""
    admitted_s = _or(row["scheduled_s"], end_s)
    spans = [_Span("queued", _or(row["queued_s"], end_s), admitted_s)]
    runs_from_s, token_s = admitted_s, _or(row["first_token_s"], end_s)
    for interruption in interruptions:
        spans += _running(runs_from_s, token_s, interruption["preempted_s"])
        runs_from_s = _or(interruption["resumed_s"], end_s)
        spans.append(
            _Span("swapped" if interruption["swapped"] else "preempted", interruption["preempted_s"], runs_from_s)
        )
        token_s = _or(interruption["restored_s"], max(token_s, runs_from_s))
    return [*spans, *_running(runs_from_s, token_s, end_s)]


def _running(start_s: float, token_s: float, end_s: float) -> list[_Span]:
    """From an admission to the end or the next preemption; its KV is there again when it gets a token."""
    token_s = min(max(token_s, start_s), end_s)
    spans = (_Span("prefill", start_s, token_s), _Span("decode", token_s, end_s))
    return [span for span in spans if span.end_s > span.start_s]


def _async(id: int, replica: int, whole: _Span, spans: list[_Span], args: Event) -> Iterator[Event]:
    place = {"cat": _REQUESTS, "id": str(id), "pid": replica, "tid": 0}
    yield {"ph": "b", "name": whole.name, "ts": _us(whole.start_s), **place, "args": args}
    for span in spans:
        yield {"ph": "b", "name": span.name, "ts": _us(span.start_s), **place}
        yield {"ph": "e", "name": span.name, "ts": _us(span.end_s), **place}
    yield {"ph": "e", "name": whole.name, "ts": _us(whole.end_s), **place}
