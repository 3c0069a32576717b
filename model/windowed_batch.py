"""The decode batch of a model with sliding windows: sums of contexts cut at the windows, and blocks that come back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from heapq import heappop, heappush
from itertools import accumulate

from servecast.hardware.errors import InvariantError
from servecast.model.block_pool import BlockPool
from servecast.model.decode_batch import DecodeBatch
from servecast.model.grouped_pool import GroupedBlockPool
from servecast.model.request import Request


class WindowedDecodeBatch(DecodeBatch):
    """windows: for which sums are kept, in tokens. Blocks are counted as `pool` does: in groups, or as if all layers
    kept every token.
    """

    def __init__(self, windows: Sequence[int], pool: BlockPool) -> None:
        super().__init__(pool.block_size)
        self.windowed = tuple(WindowedSum(window) for window in windows)
        self._demand = GroupDemand(pool) if isinstance(pool, GroupedBlockPool) else None

    def add(self, request: Request) -> None:
        super().add(request)
        for windowed in self.windowed:
            windowed.add(request.id, request.offset, self.tick)
        if self._demand is not None:
            self._demand.add(request.id, request.offset, self.tick)

    def _leave(self, request: Request) -> None:
        super()._leave(request)
        for windowed in self.windowed:
            windowed.remove(request.id)
        if self._demand is not None:
            self._demand.remove(request.id, request.offset)

    def blocks_needed(self) -> int:
        """May be negative, as blocks behind a window come back."""
        return super().blocks_needed() if self._demand is None else self._demand.of_step(self.tick)

    def blocks_needed_for(self, steps: int) -> int:
        """Up to `steps_to_window`."""
        if self._demand is None:
            return super().blocks_needed_for(steps)
        return self._demand.of_steps(self.tick, steps)

    def most_returned(self) -> int:
        return 0 if self._demand is None else self._demand.most_returned(self.tick)

    def steps_within(self, free_blocks: int, limit: int) -> int:
        """`limit` must not be above `steps_to_window`."""
        if self._demand is None:
            return super().steps_within(free_blocks, limit)
        return self._demand.steps_within(self.tick, free_blocks, limit)

    def steps_to_window(self) -> int | None:
        waits = [windowed.steps_to_full(self.tick) for windowed in self.windowed]
        if self._demand is not None:
            # Not the same: the sums look a step ahead.
            waits.append(self._demand.steps_to_full(self.tick))
        return min((wait for wait in waits if wait is not None), default=None)

    def windowed_sums(self) -> list[tuple[int, int]]:
        longest = self.contexts()[1]
        return [(w.total(self.tick + 1), min(longest, w.window)) for w in self.windowed]

    def windowed_growth(self) -> list[tuple[int, int]]:
        longest = self.contexts()[1]
        return [(w.growing, int(longest < w.window)) for w in self.windowed]

    def check(self, members: list[Request]) -> None:
        super().check(members)
        for windowed in self.windowed:
            expected = sum(min(request.offset + self.tick + 1, windowed.window) for request in members)
            if members and windowed.total(self.tick + 1) != expected:
                raise InvariantError(f"{windowed.total(self.tick + 1)} tokens in window counted, {expected} there")

    def _blocks_needed_of(self, contexts: list[int]) -> int:
        if self._demand is None:
            return super()._blocks_needed_of(contexts)
        blocks_for = self._demand.pool.blocks_for
        return sum(blocks_for(context) - blocks_for(context - 1) for context in contexts)


class Crossings:
    """Which members' contexts have not reached `limit` tokens yet."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        # (tick at which the member's context reaches the limit, id); entries of those who left go when they surface.
        self._queue: list[tuple[int, int]] = []
        self._tick_of: dict[int, int] = {}

    def add(self, id: int, offset: int, tick: int) -> bool:
        """Whether the member, whose context is `offset + tick`, has still to reach the limit."""
        if offset + tick >= self.limit:
            return False
        self._tick_of[id] = crossing = self.limit - offset
        heappush(self._queue, (crossing, id))
        return True

    def remove(self, id: int) -> bool:
        """Whether it had still to reach it."""
        return self._tick_of.pop(id, None) is not None

    def crossed(self, tick: int) -> Iterator[int]:
        """The offsets of those who reach the limit by `tick`; from now on they have."""
        while self._queue and self._queue[0][0] <= tick:
            crossing, id = heappop(self._queue)
            if self._tick_of.get(id) == crossing:
                del self._tick_of[id]
                yield self.limit - crossing

    def next_tick(self) -> int | None:
        """When the next of them does, None if there is none."""
        while self._queue and self._tick_of.get(self._queue[0][1]) != self._queue[0][0]:
            heappop(self._queue)
        return self._queue[0][0] if self._queue else None


class WindowedSum:
    """Sum over members of min(context, window)."""

    def __init__(self, window: int) -> None:
        self.window = window
        self.growing = 0
        self._offsets = 0
        self._full = 0
        self._offset_of: dict[int, int] = {}
        self._crossings = Crossings(window)

    def add(self, id: int, offset: int, tick: int) -> None:
        if self._crossings.add(id, offset, tick):
            self._offset_of[id] = offset
            self.growing += 1
            self._offsets += offset
        else:
            self._full += 1

    def remove(self, id: int) -> None:
        offset = self._offset_of.pop(id, None)
        if self._crossings.remove(id) and offset is not None:
            self.growing -= 1
            self._offsets -= offset
        else:
            self._full -= 1

    def total(self, tick: int) -> int:
        """The sum when the batch stands at `tick`; members that cross by then count as full."""
        self._cross(tick)
        return self._offsets + self.growing * tick + self._full * self.window

    def steps_to_full(self, tick: int) -> int | None:
        """Steps from `tick` until the next member's context reaches the window, None if none grows."""
        self._cross(tick)
        following = self._crossings.next_tick()
        return None if following is None else following - tick

    def _cross(self, tick: int) -> None:
        for offset in self._crossings.crossed(tick):
            self.growing -= 1
            self._offsets -= offset
            self._full += 1


class GroupDemand:
    """Blocks that decode steps take of a pool with groups, less those that come back from behind the windows.

    A step from context c to c + 1 opens a block where c is a multiple of the group's block size; a windowed group gives
    one back where c + 1 exceeds the window by a multiple of it. So both depend on the phase of the tick alone, but for
    members that have not filled a window.
    """

    def __init__(self, pool: GroupedBlockPool) -> None:
        self.pool = pool
        self._period = math.lcm(*(kind.block_size for kind, _ in pool.kinds))
        # Net blocks of a step, by the phase of its tick.
        self._net = [0] * self._period
        # (who has to fill the window, block size, groups) of each kind with a window.
        self._windows = [
            (Crossings(kind.window), kind.block_size, count) for kind, count in pool.kinds if kind.window is not None
        ]

    def add(self, id: int, offset: int, tick: int) -> None:
        for kind, count in self.pool.kinds:
            self._shift(-offset, kind.block_size, count)
        for crossings, size, count in self._windows:
            if not crossings.add(id, offset, tick):
                self._shift(crossings.limit - 1 - offset, size, -count)

    def remove(self, id: int, offset: int) -> None:
        for kind, count in self.pool.kinds:
            self._shift(-offset, kind.block_size, -count)
        for crossings, size, count in self._windows:
            if not crossings.remove(id):
                self._shift(crossings.limit - 1 - offset, size, count)

    def _shift(self, phase: int, size: int, blocks: int) -> None:
        for place in range(phase % size, self._period, size):
            self._net[place] += blocks

    def _cross(self, tick: int) -> None:
        for crossings, size, count in self._windows:
            for offset in crossings.crossed(tick):
                self._shift(crossings.limit - 1 - offset, size, -count)

    def steps_to_full(self, tick: int) -> int | None:
        """Steps from `tick` until the next member fills a window, None if none will."""
        self._cross(tick)
        ticks = [crossings.next_tick() for crossings, _, _ in self._windows]
        return min((following - tick for following in ticks if following is not None), default=None)

    def of_step(self, tick: int) -> int:
        self._cross(tick)
        return self._net[tick % self._period]

    def of_steps(self, tick: int, steps: int) -> int:
        """Of `steps` steps from `tick` on together, if nobody fills a window before the last."""
        cycle = self._cycle(tick)
        cycles, rest = divmod(steps, self._period)
        return cycles * cycle[-1] + (cycle[rest - 1] if rest else 0)

    def most_returned(self, tick: int) -> int:
        """Most blocks by which members hold less at some later step than at `tick`. Over a period none of them loses
        any, so the first period shows it.
        """
        return max(0, -min(self._cycle(tick)))

    def steps_within(self, tick: int, free_blocks: int, limit: int) -> int:
        """How many of them, at most `limit`, `free_blocks` blocks are enough for at every step."""
        cycle = self._cycle(tick)
        steps, free, peak, net = 0, free_blocks, max(cycle), cycle[-1]
        if peak <= free:
            # A whole cycle fits as long as its peak does.
            cycles = limit // self._period if net <= 0 else min((free - peak) // net + 1, limit // self._period)
            steps, free = cycles * self._period, free - cycles * net
        fitting = 0
        while steps + fitting < limit and fitting < self._period and cycle[fitting] <= free:
            fitting += 1
        return steps + fitting

    def _cycle(self, tick: int) -> list[int]:
        """Net blocks of 1, 2, ... period steps from `tick` on."""
        self._cross(tick)
        first = tick % self._period
        return list(accumulate(self._net[first:] + self._net[:first]))
