"""Waiting queues: order, preempted requests, putting back, and what a long queue costs."""

from __future__ import annotations

import math
from typing import Any

import pytest

from servecast.model.policies import PolicyParameters
from servecast.model.request import Request
from servecast.model.waiting_queue import KeyedQueue, LongestPrefixQueue, WaitingQueue, waiting_queue

ORDERS = ("fcfs", "shortest_prompt", "priority", "aging", "edf", "longest_prefix")


def waits(id: int, prompt: int = 10, priority: int = 0) -> Request:
    request = Request(id, prompt, 10, priority)
    request.queued_s = float(id)
    return request


def queue(policy: str, *requests: Request) -> WaitingQueue:
    found = waiting_queue(PolicyParameters(policy))
    for request in requests:
        found.push(request)
    return found


def drained(waiting: WaitingQueue) -> list[int]:
    ids = []
    while len(waiting):
        head = waiting.peek()
        assert waiting.take() is head
        ids.append(head.id)
    return ids


@pytest.mark.parametrize("policy", ORDERS)
def test_walking_a_queue_gives_the_order_in_which_it_is_emptied(policy: str) -> None:
    waiting = queue(policy, *(waits(id, 1 + 7 * id % 5, id % 3) for id in range(20)))
    walked = [request.id for request in waiting]
    assert len(waiting) == 20
    assert drained(waiting) == walked


@pytest.mark.parametrize("policy", ORDERS)
def test_the_preempted_come_first_and_the_last_of_them_foremost(policy: str) -> None:
    waiting = queue(policy, waits(1, 1), waits(2, 2))
    waiting.push_front(waits(8, 500))
    waiting.push_front(waits(7, 900))
    waiting.push(waits(0, 1))
    assert drained(waiting)[:2] == [7, 8]


@pytest.mark.parametrize("policy", ORDERS)
def test_or_last_when_they_are_put_to_the_back(policy: str) -> None:
    waiting = queue(policy, waits(1), waits(2))
    waiting.push_back(waits(7))
    waiting.push_back(waits(6))
    assert drained(waiting) == [1, 2, 7, 6]


def test_with_priorities_the_preempted_come_first_among_their_own() -> None:
    waiting = queue("priority", waits(1, priority=0), waits(2, priority=5), waits(3, priority=9))
    waiting.push_front(waits(9, priority=5))
    waiting.push_back(waits(4, priority=0))
    assert drained(waiting) == [1, 4, 9, 2, 3]


@pytest.mark.parametrize("policy", ["fcfs", "shortest_prompt", "priority", "aging", "edf"])
def test_those_passed_over_go_back_to_their_places(policy: str) -> None:
    requests = [waits(id, 1 + 7 * id % 5, id % 3) for id in range(9)]
    waiting = queue(policy, *requests)
    waiting.push_front(waits(20))
    before = [request.id for request in waiting]
    taken = [waiting.take() for _ in range(4)]
    gone = taken.pop(2)
    for request in reversed(taken):
        waiting.restore(request)
    before.remove(gone.id)
    assert [request.id for request in waiting] == before


def test_longest_prefix_takes_who_has_most_in_the_pool_now() -> None:
    cached = {1: 0, 2: 3, 3: 3, 4: 1}
    waiting = LongestPrefixQueue(lambda request: cached[request.id])
    for id in cached:
        waiting.push(waits(id))
    assert waiting.peek().id == 2
    assert waiting.take().id == 2
    cached[1] = 9  # somebody with the same prompt was computed meanwhile
    assert drained(waiting) == [1, 3, 4]


def test_longest_prefix_looks_at_the_32_who_have_waited_longest() -> None:
    waiting = LongestPrefixQueue(lambda request: request.id)
    for id in range(100):
        waiting.push(waits(id))
    assert waiting.take().id == 31
    assert waiting.take().id == 32


def test_longest_prefix_restores_those_passed_over_to_their_places() -> None:
    waiting = LongestPrefixQueue(lambda request: request.id % 3)
    for id in range(5):
        waiting.push(waits(id))
    taken = [waiting.take() for _ in range(2)]
    for request in reversed(taken):
        waiting.restore(request)
    assert [request.id for request in waiting] == [0, 1, 2, 3, 4]


def test_longest_prefix_without_a_prefix_cache_is_first_come_first_served() -> None:
    assert drained(queue("longest_prefix", waits(2), waits(1))) == [2, 1]


def test_a_policy_of_the_users_own_needs_no_tie_breaker() -> None:
    waiting = waiting_queue(PolicyParameters("mine:Class", key=lambda request: (-request.output_tokens,)))
    for id in (3, 1, 2):
        waiting.push(waits(id))
    assert drained(waiting) == [1, 2, 3]


class Counted:
    """A number that counts how often it is compared."""

    comparisons = 0

    def __init__(self, value: int) -> None:
        self.value = value

    def __lt__(self, other: Counted) -> bool:
        Counted.comparisons += 1
        return self.value < other.value

    def __eq__(self, other: Any) -> bool:
        Counted.comparisons += 1
        return bool(self.value == other.value)

    __hash__ = None  # type: ignore[assignment]  # only ordered


def test_joining_and_leaving_a_queue_of_10_000_costs_its_logarithm() -> None:
    waiting = KeyedQueue(lambda request: (Counted(request.prompt_tokens),), by_priority=False)
    for id in range(10_000):
        waiting.push(waits(id, prompt=(id * 7919) % 10_007))
    Counted.comparisons = 0
    for id in range(10_000, 10_100):
        waiting.take()
        waiting.push(waits(id, prompt=(id * 7919) % 10_007))
    # Two comparisons (==, <) for each level of the heap, down and up again when leaving, up when joining.
    assert Counted.comparisons / 100 < 8 * math.log2(10_000)
