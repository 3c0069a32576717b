"""Copies of KV blocks between a GPU and host memory, one lane for each direction."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

import simpy


@dataclass(frozen=True)
class LinkParameters:
    """The PCIe link of one GPU; all GPUs of a replica copy their own share at once, so theirs are its times and bytes.

    block_bytes: KV of a block on one GPU. bytes_per_s: one direction. copies_per_block, copy_s: a block is many small
    copies, K and V of each layer, and each takes so long besides its bytes.
    """

    block_bytes: float
    bytes_per_s: float
    copies_per_block: int = 0
    copy_s: float = 0.0

    def seconds(self, blocks: int) -> float:
        """To copy `blocks` blocks one way."""
        return blocks * (self.block_bytes / self.bytes_per_s + self.copies_per_block * self.copy_s)


class HostLink:
    """Copies out and in at the same time, each in turn."""

    def __init__(self, env: simpy.Environment, parameters: LinkParameters) -> None:
        self._env = env
        self._parameters = parameters
        self._out = simpy.Resource(env)
        self._in = simpy.Resource(env)
        self.bytes_moved = 0.0

    def exchange(self, out_blocks: int, in_blocks: int) -> Generator[simpy.Event, Any, None]:
        """Copy blocks out and others in; done when both are."""
        lanes = ((self._out, out_blocks), (self._in, in_blocks))
        yield self._env.all_of([self._env.process(self._copy(lane, blocks)) for lane, blocks in lanes if blocks])

    def _copy(self, lane: simpy.Resource, blocks: int) -> Generator[simpy.Event, Any, None]:
        with lane.request() as turn:
            yield turn
            yield self._env.timeout(self._parameters.seconds(blocks))
        self.bytes_moved += blocks * self._parameters.block_bytes
