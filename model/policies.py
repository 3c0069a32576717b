"""Queue policies: in which order waiting requests are admitted.

A policy is a function that gives a request's key; the smallest goes first. Adding one = the function, a line in
POLICIES and a test. A class of your own with a method `key(request)` works too, by its import path (see
docs/scheduler.md). Keys are taken when a request joins the queue, so they must not change while it waits; they end in
the request's id, so that ties have an order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from servecast.model.request import Request
from servecast.model.slo import Slo

Key = Callable[[Request], tuple[Any, ...]]


@dataclass(frozen=True)
class PolicyParameters:
    """name: one of POLICIES. key: a policy of the user's own, in place of a named one.

    aging_tokens_per_s: prompt tokens that a second of waiting makes up for, in `aging`.
    """

    name: str = "fcfs"
    key: Key | None = None
    aging_tokens_per_s: float = 100.0


def fcfs(_parameters: PolicyParameters, _slo: Slo | None) -> Key:
    """First come, first served."""
    return lambda request: (request.queued_s, request.id)


def shortest_prompt(_parameters: PolicyParameters, _slo: Slo | None) -> Key:
    """Fewest prompt tokens first."""
    return lambda request: (request.prompt_tokens, request.id)


def priority(_parameters: PolicyParameters, _slo: Slo | None) -> Key:
    """Lowest priority value first, as in vLLM; first come, first served among equals."""
    return lambda request: (request.priority, request.queued_s, request.id)


def aging(parameters: PolicyParameters, _slo: Slo | None) -> Key:
    """Shortest prompt first, but each second of waiting counts like `aging_tokens_per_s` tokens less.

    All requests age alike, so the order of two never changes: prompt - rate * (now - queued) sorts as
    prompt + rate * queued does.
    """
    rate = parameters.aging_tokens_per_s
    return lambda request: (request.prompt_tokens + rate * request.queued_s, request.id)


def edf(_parameters: PolicyParameters, slo: Slo | None) -> Key:
    """Earliest deadline first: the latest time at which a request may start and still meet the SLO's limits.

    That is its arrival plus the TTFT limit, or plus what the E2EL limit leaves for its outputs at the TPOT limit.
    """
    limits = {} if slo is None else slo.request_limits_s
    ttft_s, tpot_s, e2el_s = limits.get("ttft"), limits.get("tpot", 0.0), limits.get("e2el")

    def key(request: Request) -> tuple[Any, ...]:
        slack = [] if ttft_s is None else [ttft_s]
        if e2el_s is not None:
            slack.append(e2el_s - tpot_s * (request.output_tokens - 1))
        return request.queued_s + min(slack, default=0.0), request.id

    return key


# longest_prefix is not a key but a queue of its own: what is cached changes while a request waits.
POLICIES: dict[str, Callable[[PolicyParameters, Slo | None], Key]] = {
    "fcfs": fcfs,
    "shortest_prompt": shortest_prompt,
    "priority": priority,
    "aging": aging,
    "edf": edf,
    "longest_prefix": fcfs,
}
