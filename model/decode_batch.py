"""The requests that decode, as sums: what a step over all of them needs is known without walking them.

Every member gains one token in every step, so a member's context is `offset + tick`, with one `tick` for the whole
batch. Sums over members change by what joins and leaves; block needs and finishes are looked up by tick.
"""

from __future__ import annotations

from heapq import heappop, heappush

from servecast.hardware.errors import InvariantError
from servecast.model.request import Request


class DecodeBatch:
    """Members in lockstep. `windows`: the finite attention windows of the model, in tokens, for which sums are kept
    too.
    """

    def __init__(self, block_size: int, windows: tuple[int, ...] = ()) -> None:
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
        self.windowed = tuple(WindowedSum(window) for window in windows)

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
        for windowed in self.windowed:
            windowed.add(request.id, request.computed_tokens, self.tick)

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
        for windowed in self.windowed:
            windowed.remove(request.id)

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
        waits = [wait for windowed in self.windowed if (wait := windowed.steps_to_full(self.tick)) is not None]
        return min(waits) if waits else None

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
        longest = self.contexts()[1]
        return [(w.total(self.tick + 1), min(longest, w.window)) for w in self.windowed]

    def windowed_growth(self) -> list[tuple[int, int]]:
        """What each of `windowed_sums` gains a step while `steps_to_window` lasts."""
        longest = self.contexts()[1]
        return [(w.growing, int(longest < w.window)) for w in self.windowed]

    def check(self, members: list[Request]) -> None:
        """Raise InvariantError unless the sums equal those over `members`."""
        contexts = [request.offset + self.tick + 1 for request in members]
        if self.size != len(members):
            raise InvariantError(f"{self.size} members counted, {len(members)} there")
        if not members:
            return
        if self.contexts() != (sum(contexts), max(contexts)):
            raise InvariantError(f"contexts counted {self.contexts()}; there {contexts}")
        for windowed in self.windowed:
            expected = sum(min(context, windowed.window) for context in contexts)
            if windowed.total(self.tick + 1) != expected:
                raise InvariantError(f"{windowed.total(self.tick + 1)} tokens in window counted, {expected} there")
        opening = sum((context - 1) % self._block_size == 0 for context in contexts)
        if self.blocks_needed() != opening:
            raise InvariantError(f"{self.blocks_needed()} blocks to open counted, {opening} there")


class WindowedSum:
    """Sum over members of min(context, window)."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.growing = 0
        self._offsets = 0
        self._full = 0
        # (tick at which the member's context reaches the window, id); entries of those who left go when they surface.
        self._crossings: list[tuple[int, int]] = []
        self._crossing_of: dict[int, int] = {}

    def add(self, id: int, context: int, tick: int) -> None:
        if context >= self.window:
            self._full += 1
            return
        crossing = tick + self.window - context
        self.growing += 1
        self._offsets += context - tick
        self._crossing_of[id] = crossing
        heappush(self._crossings, (crossing, id))

    def remove(self, id: int) -> None:
        crossing = self._crossing_of.pop(id, None)
        if crossing is None:
            self._full -= 1
        else:
            self.growing -= 1
            self._offsets -= self.window - crossing

    def total(self, tick: int) -> int:
        """The sum when the batch stands at `tick`; members that cross by then count as full."""
        self._cross(tick)
        return self._offsets + self.growing * tick + self._full * self.window

    def steps_to_full(self, tick: int) -> int | None:
        """Steps from `tick` until the next member's context reaches the window, None if none grows."""
        self._cross(tick)
        while self._crossings and self._crossing_of.get(self._crossings[0][1]) != self._crossings[0][0]:
            heappop(self._crossings)
        return self._crossings[0][0] - tick if self._crossings else None

    def _cross(self, tick: int) -> None:
        while self._crossings and self._crossings[0][0] <= tick:
            crossing, id = heappop(self._crossings)
            if self._crossing_of.get(id) == crossing:
                del self._crossing_of[id]
                self.growing -= 1
                self._offsets -= self.window - crossing
                self._full += 1
