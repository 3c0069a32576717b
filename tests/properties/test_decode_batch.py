"""The decode batch's sums against a walk over its members, for any sequence of joins, leaves and steps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from servecast.model.block_pool import BlockPool
from servecast.model.decode_batch import DecodeBatch
from servecast.model.grouped_pool import GroupedBlockPool
from servecast.model.kv_cache import CacheKind
from servecast.model.request import Request
from servecast.model.windowed_batch import WindowedDecodeBatch

JOIN = st.tuples(st.just("join"), st.integers(1, 60), st.integers(2, 40))
LEAVE = st.tuples(st.just("leave"), st.integers(0, 10), st.just(0))
STEP = st.tuples(st.just("step"), st.integers(1, 40), st.just(0))


@given(st.lists(st.one_of(JOIN, LEAVE, STEP), max_size=60), st.sampled_from([1, 4, 16]))
def test_sums_equal_those_of_a_walk(actions: list[tuple[str, int, int]], block_size: int) -> None:
    batch = WindowedDecodeBatch((8, 32), BlockPool(10**6, block_size))
    members: list[Request] = []
    computed: dict[int, int] = {}
    for id, (action, first, second) in enumerate(actions):
        if action == "join":
            request = Request(id, first, second)
            request.computed_tokens, request.emitted_tokens = first, 1
            batch.add(request)
            members.append(request)
            computed[id] = first
        elif action == "leave" and members:
            request = members.pop(first % len(members))
            batch.remove(request)
            assert request.computed_tokens == computed[request.id]
        elif action == "step" and members:
            advance(batch, members, computed, first, block_size)
        batch.check(members)


def advance(batch: DecodeBatch, members: list[Request], computed: dict[int, int], steps: int, block_size: int) -> None:
    """Take at most `steps` steps at once, as far as nobody finishes before the last; compare with single steps."""
    remaining = min(r.output_tokens - (computed[r.id] - r.prompt_tokens) - 1 for r in members)
    assert batch.steps_to_finish() == remaining
    steps = min(steps, remaining)
    opened = sum(-(-(computed[r.id] + steps) // block_size) + -computed[r.id] // block_size for r in members)
    assert batch.blocks_needed_for(steps) == opened
    assert batch.steps_within(opened, steps) == steps
    if opened:
        assert batch.steps_within(opened - 1, steps) < steps
    finished = batch.advance(steps)
    for request in members:
        computed[request.id] += steps
    assert {r.id for r in finished} == {r.id for r in members if steps == remaining and r in finished}
    for request in finished:
        assert request.emitted_tokens == request.output_tokens
        assert request.computed_tokens == request.prompt_tokens + request.output_tokens - 1
        members.remove(request)


@given(st.lists(st.integers(1, 50), min_size=1, max_size=8), st.integers(1, 60))
def test_windowed_sums_grow_evenly_until_the_next_crossing(contexts: list[int], window: int) -> None:
    batch = WindowedDecodeBatch((window,), BlockPool(10**6, 16))
    for id, context in enumerate(contexts):
        request = Request(id, context, 1000)
        request.computed_tokens, request.emitted_tokens = context, 1
        batch.add(request)
    steady = batch.steps_to_window()
    (total, longest), (gain, longer) = batch.windowed_sums()[0], batch.windowed_growth()[0]
    for i in range(min(steady if steady is not None else 70, 70)):
        expected = [min(context + 1 + i, window) for context in contexts]
        assert (sum(expected), max(expected)) == (total + i * gain, longest + i * longer)


GROUPS = st.lists(
    st.builds(CacheKind, st.just(1), st.sampled_from([1, 4, 8]), st.sampled_from([None, 1, 5, 16])),
    min_size=1,
    max_size=4,
)
CONTEXTS = st.lists(st.integers(1, 60), min_size=1, max_size=8)


@given(GROUPS, CONTEXTS, st.integers(0, 60), st.integers(1, 80))
def test_blocks_of_groups_equal_those_of_single_steps(
    groups: list[CacheKind], contexts: list[int], free: int, most: int
) -> None:
    """`most` steps, or up to the next context that fills a window, against a walk over members and steps."""
    pool = GroupedBlockPool(10**6, groups, 16)
    batch = WindowedDecodeBatch(sorted({kind.window for kind in groups if kind.window is not None}), pool)
    for id, context in enumerate(contexts):
        request = Request(id, context, 1000)
        request.computed_tokens, request.emitted_tokens = context, 1
        batch.add(request)
    while most:
        steps = min(most, batch.steps_to_window() or most)
        held = sum(map(pool.blocks_for, contexts))
        taken = [sum(pool.blocks_for(context + i) for context in contexts) - held for i in range(1, steps + 1)]
        assert batch.blocks_needed() == taken[0]
        assert batch.blocks_needed_for(steps) == taken[-1]
        assert batch.steps_within(free, steps) == next((i for i, blocks in enumerate(taken) if blocks > free), steps)
        batch.windowed_sums()  # looks a step ahead, and must not change what is counted
        assert batch.blocks_needed() == taken[0]
        batch.advance(steps)
        contexts, most = [context + steps for context in contexts], most - steps


@given(GROUPS, CONTEXTS, st.lists(st.integers(0, 7), max_size=8))
def test_leaving_takes_the_blocks_of_groups_along(
    groups: list[CacheKind], contexts: list[int], leavers: list[int]
) -> None:
    pool = GroupedBlockPool(10**6, groups, 16)
    batch, members = WindowedDecodeBatch((5, 16), pool), []
    for id, context in enumerate(contexts):
        request = Request(id, context, 1000)
        request.computed_tokens, request.emitted_tokens = context, 1
        batch.add(request)
        members.append(request)
        batch.advance(3)
        batch.check(members)
    for leaver in leavers:
        if members:
            batch.remove(members.pop(leaver % len(members)))
            batch.check(members)
            if members:
                batch.advance(2)
