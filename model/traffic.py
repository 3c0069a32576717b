"""The SimPy processes that bring requests to the fleet: an open feed, or clients in a closed loop."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Generator, Iterator
from itertools import repeat
from typing import Any

import simpy

from servecast.model.records import RequestRows
from servecast.model.request import Request
from servecast.model.workload import Workload

Submit = Callable[[Request], None]
Process = Generator[simpy.Event, Any, None]


def start_traffic(
    env: simpy.Environment, workload: Workload, rows: RequestRows, submit: Submit, server_s: float
) -> None:
    """Start the processes. `submit` gets each request `server_s` after it was sent, the time that the HTTP server and
    the tokeniser take; `rows` gets the time at which it was sent.
    """
    if workload.closed_loop is None:
        env.process(_feed(env, workload, rows, submit, server_s))
        return
    requests = _requests(workload)
    for _ in range(min(workload.closed_loop.concurrency, len(workload))):
        env.process(_client(env, requests, rows, submit, server_s, workload.closed_loop.think_time_s))


def _requests(workload: Workload) -> Iterator[Request]:
    """Requests made one by one, so that only those under way take memory."""
    lengths = zip(workload.prompt_tokens.tolist(), workload.output_tokens.tolist(), strict=True)
    if workload.priority is None and workload.content is None:
        for id, (prompt, output) in enumerate(lengths):
            yield Request(id, prompt, output)
        return
    priorities = repeat(0) if workload.priority is None else workload.priority.tolist()
    contents = repeat(()) if workload.content is None else workload.content
    for id, ((prompt, output), priority, content) in enumerate(zip(lengths, priorities, contents, strict=False)):
        yield Request(id, prompt, output, priority, content)


def _feed(env: simpy.Environment, workload: Workload, rows: RequestRows, submit: Submit, server_s: float) -> Process:
    assert workload.arrival_s is not None  # an open workload has arrival times
    rows.arrival_s = array("d", workload.arrival_s)
    for request, seen_s in zip(_requests(workload), (workload.arrival_s + server_s).tolist(), strict=True):
        if seen_s > env.now:
            yield env.timeout(seen_s - env.now)
        submit(request)


def _client(
    env: simpy.Environment,
    requests: Iterator[Request],
    rows: RequestRows,
    submit: Submit,
    server_s: float,
    think_time_s: float,
) -> Process:
    for request in requests:
        rows.arrival_s[request.id] = env.now
        request.done = env.event()
        yield env.timeout(server_s)
        submit(request)
        yield request.done
        yield env.timeout(think_time_s)
