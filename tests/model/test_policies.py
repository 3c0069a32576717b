"""Queue policies: who goes first, and who of two that are alike."""

from __future__ import annotations

from typing import Any

import pytest

from servecast.model.policies import POLICIES, PolicyParameters
from servecast.model.request import Request
from servecast.model.slo import parse_slo


def waits(id: int, *, prompt: int = 10, output: int = 10, queued_s: float = 0.0, priority: int = 0) -> Request:
    request = Request(id, prompt, output, priority)
    request.queued_s = queued_s
    return request


def order(policy: str, *requests: Request, slo: str | None = None, **parameters: Any) -> list[int]:
    key = POLICIES[policy](PolicyParameters(policy, **parameters), None if slo is None else parse_slo(slo))
    return [request.id for request in sorted(requests, key=key)]


def test_fcfs_goes_by_arrival_and_then_by_id() -> None:
    assert order("fcfs", waits(3, queued_s=1.0), waits(2, queued_s=2.0), waits(1, queued_s=1.0)) == [1, 3, 2]


def test_shortest_prompt_goes_by_prompt_and_then_by_id() -> None:
    late_and_short = waits(4, prompt=5, queued_s=9.0)
    assert order("shortest_prompt", waits(3, prompt=7), waits(2, prompt=7), late_and_short) == [4, 2, 3]


def test_priority_puts_low_values_first_and_early_ones_among_equals() -> None:
    requests = (waits(1, priority=5), waits(2, priority=-1, queued_s=3.0), waits(3, priority=-1, queued_s=2.0))
    assert order("priority", *requests, waits(4, priority=5)) == [3, 2, 1, 4]


@pytest.mark.parametrize("now_s", [10.0, 100.0, 5000.0])
@pytest.mark.parametrize("rate", [0.0, 3.0, 100.0])
def test_aging_is_the_order_that_waiting_times_give_at_any_moment(now_s: float, rate: float) -> None:
    requests = [waits(id, prompt=1 + 37 * id % 101, queued_s=id * 0.3) for id in range(30)]

    def prompt_left(request: Request) -> tuple[float, int]:
        return round(request.prompt_tokens - rate * (now_s - request.queued_s), 6), request.id

    assert order("aging", *requests, aging_tokens_per_s=rate) == [r.id for r in sorted(requests, key=prompt_left)]


def test_aging_lets_a_long_prompt_pass_short_ones_that_came_much_later() -> None:
    long, soon, later = waits(1, prompt=1000), waits(2, prompt=10, queued_s=9.0), waits(3, prompt=10, queued_s=10.0)
    assert order("aging", long, soon, later, aging_tokens_per_s=100.0) == [2, 1, 3]


def test_edf_without_differences_in_slack_is_fcfs() -> None:
    requests = (waits(1, queued_s=2.0), waits(2, queued_s=1.0, output=500))
    assert order("edf", *requests) == order("edf", *requests, slo="ttft:500") == [2, 1]


def test_edf_starts_early_who_has_many_tokens_to_emit() -> None:
    """10 s for all: 101 outputs at 50 ms leave 5 s to start, 21 outputs 9 s. A TTFT limit of 4 s is alike."""
    many, few = waits(1, output=101, queued_s=3.0), waits(2, output=21, queued_s=0.0)
    assert order("edf", many, few, slo="e2el:10s tpot:50") == [1, 2]
    assert order("edf", many, few, slo="e2el:10s tpot:50 ttft:4s") == [2, 1]


def test_every_policy_tells_requests_apart_that_differ_in_their_id_only() -> None:
    for policy in POLICIES:
        assert order(policy, waits(9), waits(7), waits(8)) == [7, 8, 9], policy
