"""Preemption: who has to make room, and what becomes of its KV."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from servecast.hardware.errors import InvariantError
from servecast.model.request import Request


@dataclass(frozen=True)
class PreemptionParameters:
    """mode: what becomes of the KV; `auto` takes the cheaper way by the cost model. victim: one of VICTIMS.

    reinsert: where in the queue a preempted request waits. swap_space_gib: host memory, for each GPU.
    swap_copy_s: of each copy, besides its bytes; a block is two copies a layer. swap_overlap: copies run beside the
    step rather than before it.
    """

    mode: str = "recompute"
    victim: str = "last_admitted"
    reinsert: str = "front"
    swap_space_gib: float = 4.0
    swap_copy_s: float = 0.0
    swap_overlap: bool = False


@dataclass(frozen=True)
class PreemptionCosts:
    """Seconds that each way takes, out and back. swap_s: of so many blocks. recompute_s: of so many tokens."""

    swap_s: Callable[[int], float]
    recompute_s: Callable[[int], float]


# Running requests in the order of admission, and the blocks that one holds -> the one to preempt.
Victim = Callable[[Iterable[Request], Callable[[Request], int]], Request]


def last_admitted(running: Iterable[Request], _blocks: Callable[[Request], int]) -> Request:
    """The newest: it has the least to lose, and the oldest always get done."""
    return next(iter(running))


def lowest_priority(running: Iterable[Request], _blocks: Callable[[Request], int]) -> Request:
    """The highest priority value; of those the newest."""
    return max(running, key=lambda request: request.priority)


def most_blocks(running: Iterable[Request], blocks: Callable[[Request], int]) -> Request:
    """The largest: one preemption makes the most room; of equals the newest."""
    return max(running, key=blocks)


# They get the running requests from the newest to the oldest.
VICTIMS: Mapping[str, Victim] = {
    "last_admitted": last_admitted,
    "lowest_priority": lowest_priority,
    "most_blocks": most_blocks,
}


class HostMemory:
    """Where swapped KV goes: `blocks` blocks. costs: what `auto` decides by."""

    def __init__(self, parameters: PreemptionParameters, blocks: int, costs: PreemptionCosts | None) -> None:
        self.blocks = blocks
        self.free_blocks = blocks
        self.fallbacks = 0
        self._mode = parameters.mode
        self._costs = costs

    def store(self, request: Request, blocks: int) -> bool:
        """Whether the `blocks` blocks of `request` are swapped out; if so they are accounted for."""
        if self._mode == "recompute" or (self._mode == "auto" and not self._cheaper(request, blocks)):
            return False
        if blocks > self.free_blocks:
            self.fallbacks += 1
            return False
        self.free_blocks -= blocks
        return True

    def _cheaper(self, request: Request, blocks: int) -> bool:
        if self._costs is None:
            raise InvariantError("preemption mode auto needs the costs of both ways")
        return self._costs.swap_s(blocks) < self._costs.recompute_s(request.computed_tokens)

    def fetch(self, blocks: int) -> None:
        """`blocks` blocks go back to the GPU."""
        self.free_blocks += blocks

    def check(self, held_blocks: int) -> None:
        if held_blocks + self.free_blocks != self.blocks:
            raise InvariantError(f"{held_blocks} host blocks held + {self.free_blocks} free != {self.blocks}")
