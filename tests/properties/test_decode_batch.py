"""The decode batch's sums against a walk over its members, for any sequence of joins, leaves and steps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from servecast.model.decode_batch import DecodeBatch
from servecast.model.request import Request

JOIN = st.tuples(st.just("join"), st.integers(1, 60), st.integers(2, 40))
LEAVE = st.tuples(st.just("leave"), st.integers(0, 10), st.just(0))
STEP = st.tuples(st.just("step"), st.integers(1, 40), st.just(0))


@given(st.lists(st.one_of(JOIN, LEAVE, STEP), max_size=60), st.sampled_from([1, 4, 16]))
def test_sums_equal_those_of_a_walk(actions: list[tuple[str, int, int]], block_size: int) -> None:
    batch = DecodeBatch(block_size, windows=(8, 32))
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
    batch = DecodeBatch(16, windows=(window,))
    for id, context in enumerate(contexts):
        request = Request(id, context, 1000)
        request.computed_tokens, request.emitted_tokens = context, 1
        batch.add(request)
    steady = batch.steps_to_window()
    (total, longest), (gain, longer) = batch.windowed_sums()[0], batch.windowed_growth()[0]
    for i in range(min(steady if steady is not None else 70, 70)):
        expected = [min(context + 1 + i, window) for context in contexts]
        assert (sum(expected), max(expected)) == (total + i * gain, longest + i * longer)
