"""The waiting queue in arrival order, with a front for those who come back."""

from __future__ import annotations

from collections import deque

from servecast.model.request import Request


class FcfsQueue(deque[Request]):
    """First come, first served; a preempted request goes to the front. A deque, because every step asks for its
    length.
    """

    push = deque.append
    push_front = deque.appendleft
    take = deque.popleft

    def peek(self) -> Request:
        return self[0]
