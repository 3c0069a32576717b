"""Waiting queues: first come first served, by a policy's key, and by what the KV pool has cached."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from heapq import heappop, heappush
from itertools import islice
from typing import Any, Protocol

from servecast.model.policies import POLICIES, Key, PolicyParameters
from servecast.model.request import Request
from servecast.model.slo import Slo

# Longest-prefix order looks at so many of the requests that have waited longest: a scan of thousands in every step
# would cost more than it brings.
_SCANNED = 32


class WaitingQueue(Protocol):
    """What the scheduler asks of a queue. settled: the head only changes by what joins and leaves."""

    settled: bool

    def push(self, request: Request) -> None: ...
    def push_front(self, request: Request) -> None:
        """Put a preempted request before the others."""

    def push_back(self, request: Request) -> None:
        """Put a preempted request behind the others."""

    def peek(self) -> Request:
        """The next to be admitted. The queue must not be empty."""
        ...

    def take(self) -> Request:
        """Remove what `peek` gives."""
        ...

    def restore(self, request: Request) -> None:
        """Put `request`, taken just now, back where it was; the last one taken first."""

    def __len__(self) -> int: ...
    def __iter__(self) -> Iterator[Request]: ...


class FcfsQueue(deque[Request]):
    """First come, first served. A deque, because every step asks for its length."""

    settled = True
    push = deque.append
    push_back = deque.append
    push_front = deque.appendleft
    restore = deque.appendleft
    take = deque.popleft

    def peek(self) -> Request:
        return self[0]


class KeyedQueue:
    """By a policy's key, in a heap: joining and leaving cost O(log n). The preempted come first, the last one foremost,
    within their priority if the policy goes by priority.
    """

    settled = True

    def __init__(self, key: Key, *, by_priority: bool) -> None:
        self._key = key
        self._by_priority = by_priority
        self._heap: list[tuple[Any, ...]] = []
        self._returns = 0
        # Where those who were taken out stood.
        self._places: dict[int, tuple[Any, ...]] = {}

    def push(self, request: Request) -> None:
        self._places.clear()
        heappush(self._heap, (self._class(request), 1, self._key(request), request.id, request))

    def push_front(self, request: Request) -> None:
        self._returns += 1
        heappush(self._heap, (self._class(request), 0, (-self._returns,), request.id, request))

    def push_back(self, request: Request) -> None:
        self._returns += 1
        heappush(self._heap, (self._class(request), 2, (self._returns,), request.id, request))

    def _class(self, request: Request) -> int:
        return request.priority if self._by_priority else 0

    def peek(self) -> Request:
        request: Request = self._heap[0][-1]
        return request

    def take(self) -> Request:
        entry = heappop(self._heap)
        request: Request = entry[-1]
        self._places[request.id] = entry
        return request

    def restore(self, request: Request) -> None:
        heappush(self._heap, self._places.pop(request.id))

    def __len__(self) -> int:
        return len(self._heap)

    def __iter__(self) -> Iterator[Request]:
        return (entry[-1] for entry in sorted(self._heap, key=lambda entry: entry[:-1]))


class LongestPrefixQueue(FcfsQueue):
    """Of the requests that have waited longest, the one with most of its prompt in the KV pool; first come among
    equals.

    cached: leading blocks of a request's prompt that the pool has now.
    """

    settled = False

    def __init__(self, cached: Callable[[Request], int]) -> None:
        super().__init__()
        self._cached = cached
        self._head: Request | None = None
        # Where those who were taken out stood.
        self._places: dict[int, int] = {}

    def peek(self) -> Request:
        self._head = max(islice(self, _SCANNED), key=self._cached)
        return self._head

    def push(self, request: Request) -> None:
        self._places.clear()
        self.append(request)

    def take(self) -> Request:
        """What `peek` gave last: nobody looks without taking or leaving it in between."""
        request = self.peek() if self._head is None else self._head
        self._places[request.id] = place = self.index(request)
        del self[place]
        self._head = None
        return request

    def restore(self, request: Request) -> None:
        self.insert(self._places.pop(request.id), request)


def waiting_queue(
    policy: PolicyParameters, slo: Slo | None = None, cached: Callable[[Request], int] | None = None
) -> WaitingQueue:
    """The queue of `policy`. cached: what the longest-prefix order goes by."""
    if policy.key is not None:
        return KeyedQueue(policy.key, by_priority=False)
    if policy.name == "longest_prefix" and cached is not None:
        return LongestPrefixQueue(cached)
    if policy.name in ("fcfs", "longest_prefix"):
        return FcfsQueue()
    return KeyedQueue(POLICIES[policy.name](policy, slo), by_priority=policy.name == "priority")
