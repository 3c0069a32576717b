"""The requests that decode, as sums: what a step over all of them needs is known without walking them.

Every member gains one token in every step, so a member's context is `offset + tick`, with one `tick` for the whole
batch. Sums over members change by what joins and leaves; block needs and finishes are looked up by tick.
"""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from servecast.hardware.errors import InvariantError
from servecast.model.request import Request

if TYPE_CHECKING:
    from servecast.model.windowed_batch import WindowedSum


class DecodeBatch:
    """Members in lockstep. `windowed`: sums for the model's attention windows, see windowed_batch.py; here none."""

    windowed: tuple[WindowedSum, ...] = ()

    def __init__(self, block_size: int) -> None:
        self.tick = 0
        self.size = 0
        self._block_size = block_size
        self._offsets = 0
        # Members whose next token opens a block, by the phase of the tick at which it does.
        self._boundaries = [0] * block_size
        self._finishing: dict[int, list[Request]] = {}
        self._finish_ticks: list[int] = []
        # (-offset, id) of members; entries of those who left go when they surface.
        self._longest: list[tuple[int, int]] = []
        self._members: dict[int, int] = {}

    def __contains__(self, id: int) -> bool:
        return id in self._members

    def add(self, request: Request) -> None:
        """Let `request` decode from the next step on. It must have output tokens left."""
        offset = request.computed_tokens - self.tick
        request.offset = offset
        request.finish_tick = finish = self.tick + request.output_tokens - request.emitted_tokens
        self.size += 1
        self._offsets += offset
        self._boundaries[-offset % self._block_size] += 1
        group = self._finishing.get(finish)
        if group is None:
            self._finishing[finish] = [request]
            heappush(self._finish_ticks, finish)
        else:
            group.append(request)
        self._members[request.id] = offset
        heappush(self._longest, (-offset, request.id))

    def remove(self, request: Request) -> None:
        """Take `request` out before it finished; its progress goes back into the request."""
        group = self._finishing[request.finish_tick]
        group.remove(request)
        if not group:
            del self._finishing[request.finish_tick]
        self._leave(request)

    def _leave(self, request: Request) -> None:
        offset = request.offset
        self.size -= 1
        self._offsets -= offset
        self._boundaries[-offset % self._block_size] -= 1
        del self._members[request.id]
        request.computed_tokens = offset + self.tick
        request.emitted_tokens = request.output_tokens - (request.finish_tick - self.tick)

    def blocks_needed(self) -> int:
        """Blocks that the next step opens."""
        return self._boundaries[self.tick % self._block_size]

    def blocks_needed_for(self, steps: int) -> int:
        """Blocks that the next `steps` steps open together."""
        size, boundaries = self._block_size, self._boundaries
        cycles, rest = divmod(steps, size)
        first = self.tick % size
        end = first + rest
        if end <= size:
            return cycles * self.size + sum(boundaries[first:end])
        return cycles * self.size + sum(boundaries[first:]) + sum(boundaries[: end - size])

    def most_returned(self) -> int:
        """Most blocks that the next steps together give back: by so many there may be more free ones on the way."""
        return 0

    def steps_within(self, free_blocks: int, limit: int) -> int:
        """How many next steps, at most `limit`, `free_blocks` blocks are enough for."""
        size = self._block_size
        # No member opens more than one block in block_size steps; mostly that settles it.
        if self.size * (limit // size + 1) <= free_blocks or self.blocks_needed_for(limit) <= free_blocks:
            return limit
        cycles = min(free_blocks // self.size, limit // size)
        steps, left = cycles * size, free_blocks - cycles * self.size
        while steps < limit:
            left -= self._boundaries[(self.tick + steps) % size]
            if left < 0:
                break
            steps += 1
        return steps

    def steps_to_finish(self) -> int:
        """Steps up to and with the one in which the next member emits its last token. The batch must not be empty."""
        ticks = self._finish_ticks
        while ticks[0] not in self._finishing:
            heappop(ticks)
        return ticks[0] - self.tick

    def steps_to_window(self) -> int | None:
        """Steps during which every windowed sum grows evenly, None without end."""
        return None

    def advance(self, steps: int) -> list[Request]:
        """Give every member `steps` tokens; returns the members that emitted their last one, which leave.

        `steps` must not pass the next finish.
        """
        self.tick += steps
        finished = self._finishing.pop(self.tick, None)
        if finished is None:
            return []
        for request in finished:
            self._leave(request)
        return finished

    def contexts(self) -> tuple[int, int]:
        """(sum, longest) of the contexts that the next step reads, its own token included. The batch must not be
        empty.
        """
        longest, members = self._longest, self._members
        offset, id = longest[0]
        while members.get(id) != -offset:
            heappop(longest)
            offset, id = longest[0]
        after = self.tick + 1
        return self._offsets + self.size * after, after - offset

    def windowed_sums(self) -> list[tuple[int, int]]:
        """(sum, longest) of these contexts cut at each window."""
        return []

    def windowed_growth(self) -> list[tuple[int, int]]:
        """What each of `windowed_sums` gains a step while `steps_to_window` lasts."""
        return []

    def check(self, members: list[Request]) -> None:
        """Raise InvariantError unless the sums equal those over `members`."""
        contexts = [request.offset + self.tick + 1 for request in members]
        if self.size != len(members):
            raise InvariantError(f"{self.size} members counted, {len(members)} there")
        if not members:
            return
        if self.contexts() != (sum(contexts), max(contexts)):
            raise InvariantError(f"contexts counted {self.contexts()}; there {contexts}")
        opening = self._blocks_needed_of(contexts)
        if self.blocks_needed() != opening:
            raise InvariantError(f"{self.blocks_needed()} blocks to open counted, {opening} there")

    def _blocks_needed_of(self, contexts: list[int]) -> int:
        """`blocks_needed` by a walk over the contexts that the next step reads."""
        return sum((context - 1) % self._block_size == 0 for context in contexts)
