"""The feed of requests: recorded times, clients in a closed loop, and the server before the engine."""

from __future__ import annotations

from typing import Any

import numpy as np
import simpy

from servecast.model.arrivals import ClosedLoop
from servecast.model.records import RequestRows
from servecast.model.request import Request
from servecast.model.traffic import start_traffic
from servecast.model.workload import Workload


def workload(outputs: list[int], **columns: Any) -> Workload:
    return Workload(np.full(len(outputs), 10), np.array(outputs), **columns)


def seen(traffic: Workload, server_s: float) -> tuple[list[tuple[float, Request]], list[float]]:
    """(time, request) as an engine gets them that takes a second for each output token; and the times of sending."""
    env, rows = simpy.Environment(), RequestRows(len(traffic))
    got: list[tuple[float, Request]] = []

    def serve(request: Request) -> simpy.events.ProcessGenerator:
        yield env.timeout(request.output_tokens)
        if request.done is not None:
            request.done.succeed()

    def submit(request: Request) -> None:
        got.append((env.now, request))
        env.process(serve(request))

    start_traffic(env, traffic, rows, submit, server_s)
    env.run()
    return got, rows.arrival_s.tolist()


def test_open_requests_come_at_their_times_and_are_seen_after_the_server() -> None:
    got, sent = seen(workload([1, 1, 1], arrival_s=np.array([0.0, 2.0, 2.0])), server_s=0.5)
    assert [(time, request.id) for time, request in got] == [(0.5, 0), (2.5, 1), (2.5, 2)]
    assert sent == [0.0, 2.0, 2.0]


def test_each_client_sends_its_next_request_after_its_answer_and_thinking() -> None:
    """Client A: request 0, seen at 0.5, answered at 3.5. Client B: 1, answered at 1.5; from 1.75 on 2, answered at
    3.25; from 3.5 on 3. At 3.75, when A has thought, no request is left.
    """
    closed = workload([3, 1, 1, 1], closed_loop=ClosedLoop(2, 0.25))
    got, sent = seen(closed, server_s=0.5)
    assert [(time, request.id) for time, request in got] == [(0.5, 0), (0.5, 1), (2.25, 2), (4.0, 3)]
    assert sent == [0.0, 0.0, 1.75, 3.5]


def test_more_clients_than_requests() -> None:
    got, _ = seen(workload([1, 1], closed_loop=ClosedLoop(50, 0.0)), server_s=0.0)
    assert [(time, request.id) for time, request in got] == [(0.0, 0), (0.0, 1)]


def test_requests_carry_priority_and_content() -> None:
    columns = {"priority": np.array([4, 0]), "content": [((1, 5),), ()]}
    got, _ = seen(workload([1, 1], arrival_s=np.zeros(2), **columns), server_s=0.0)
    assert [(request.priority, request.content) for _, request in got] == [(4, ((1, 5),)), (0, ())]
