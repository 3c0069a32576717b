"""Copies of KV blocks between a GPU and host memory, one lane for each direction."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import simpy


class HostLink:
    """The PCIe link of each GPU of a replica: all copy their own share at once, so bytes and times are those of one
    GPU.
    """

    def __init__(self, env: simpy.Environment, bytes_per_s: float) -> None:
        self._env = env
        self._bytes_per_s = bytes_per_s
        self._out = simpy.Resource(env)
        self._in = simpy.Resource(env)
        self.bytes_moved = 0.0

    def exchange(self, out_bytes: float, in_bytes: float) -> Generator[simpy.Event, Any, None]:
        """Copy out and in at the same time; done when both are."""
        copies = [
            self._env.process(self._copy(lane, bytes_))
            for lane, bytes_ in ((self._out, out_bytes), (self._in, in_bytes))
            if bytes_
        ]
        yield self._env.all_of(copies)

    def _copy(self, lane: simpy.Resource, bytes_: float) -> Generator[simpy.Event, Any, None]:
        with lane.request() as turn:
            yield turn
            yield self._env.timeout(bytes_ / self._bytes_per_s)
        self.bytes_moved += bytes_
