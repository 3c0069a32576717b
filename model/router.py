"""Routers: which replica of a fleet takes a request. Adding one = a class, a line in ROUTERS, a test."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from servecast.model.engine_process import EngineProcess
from servecast.model.request import Request


class Router(Protocol):
    """Chooses a replica for a request that arrives now."""

    def choose(self, request: Request, replicas: Sequence[EngineProcess]) -> EngineProcess:
        """One of `replicas`; must not change them."""
        ...


class RoundRobin:
    """Each replica in turn."""

    def __init__(self) -> None:
        self._next = 0

    def choose(self, request: Request, replicas: Sequence[EngineProcess]) -> EngineProcess:  # noqa: ARG002  # the same for every request
        replica = replicas[self._next % len(replicas)]
        self._next += 1
        return replica


ROUTERS: dict[str, Callable[[], Router]] = {"round_robin": RoundRobin}
