"""Blocks of sequences whose windowed layers keep a window only: by hand, and against tables of block numbers."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from builders import clock_engine, run, scheduler_parameters, tiny_model, trace
from servecast.model.grouped_pool import GroupedBlockPool
from servecast.model.kv_cache import CacheKind
from servecast.model.metrics import summarise
from servecast.model.preemption import HostMemory
from servecast.model.request import Request
from servecast.model.scheduler import Scheduler

FULL, WINDOWED = CacheKind(1, 4, None), CacheKind(1, 4, 8)


def test_between_steps_a_window_of_8_keeps_2_or_3_blocks_of_4() -> None:
    """After token 12 the next token reads 5 to 12 besides itself: blocks 1 and 2 of 0, 1, 2 (kept: those that token 12,
    the last computed, read).
    """
    pool = GroupedBlockPool(100, [WINDOWED], 16)
    assert [pool.blocks_for(tokens) for tokens in range(1, 18)] == [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 2, 3, 3, 3, 2, 3]


def test_a_full_group_keeps_all() -> None:
    pool = GroupedBlockPool(100, [FULL, WINDOWED], 16)
    assert pool.blocks_for(17) == 5 + 3


def test_a_chunk_holds_the_window_before_it_and_itself() -> None:
    """Tokens 20 to 35 after 20: the window before them begins at token 13, in block 3. What is behind goes first."""
    pool = GroupedBlockPool(100, [WINDOWED], 16)
    assert pool.blocks_for(20) == 5 - 3
    assert pool.growth(20, 16) == (9 - 3) - 2
    pool.extend_decodes(pool.blocks_for(20) + pool.growth(20, 16))
    pool.outgrow(20, 16)
    assert pool.used_blocks == 6
    pool.settle()
    assert pool.used_blocks == pool.blocks_for(36) == 2


@given(
    st.lists(st.integers(1, 16), min_size=1, max_size=20),
    st.lists(st.tuples(st.sampled_from([1, 4, 8]), st.sampled_from([None, 1, 5, 8, 40])), min_size=1, max_size=3),
)
def test_any_sequence_of_chunks_holds_what_tables_of_blocks_would(
    chunks: list[int], groups: list[tuple[int, int | None]]
) -> None:
    """A table for each group: blocks all of whose tokens lie before the window of the next token to compute go when its
    step is planned, then the chunk's are added.
    """
    kinds = [CacheKind(1, size, window) for size, window in groups]
    pool = GroupedBlockPool(10_000, kinds, chunk_tokens=16)
    tables: list[set[int]] = [set() for _ in kinds]
    computed = 0
    for tokens in chunks:
        pool.settle()
        pool.extend_decodes(pool.growth(computed, tokens))
        pool.outgrow(computed, tokens)
        for kind, table in zip(kinds, tables, strict=True):
            first_read = 0 if kind.window is None else max(0, computed - kind.window + 1)
            table -= {block for block in table if (block + 1) * kind.block_size <= first_read}
            table |= {token // kind.block_size for token in range(computed, computed + tokens)}
        computed += tokens
        held = sum(map(len, tables))
        assert pool.used_blocks == held <= pool.most_blocks_for(computed)
    pool.settle()
    pool.check(pool.blocks_for(computed))


def test_a_prompt_longer_than_the_pool_in_tokens_of_all_layers_runs_if_its_windows_fit() -> None:
    """160 tokens: 40 blocks in the full group, at most 6 in the windowed one; 30 blocks in each would not do."""
    lengths = {"max_num_batched_tokens": 8, "max_num_seqs": 4, "block_size": 4}
    for blocks, state in ((46, "completed"), (44, "rejected")):
        result = run(trace([(0.0, 158, 3)]), architecture=tiny_model((None, 8)), blocks=blocks, **lengths)  # type: ignore[arg-type]
        summary = summarise(result)
        assert summary["completed"] == (state == "completed")
        assert sum(summary["rejected"].values()) == (state == "rejected")


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_window_lets_more_requests_run_at_once(asynchronous: bool) -> None:
    """Eight sequences grow to 100 tokens: 25 blocks each in a full group, 2 or 3 in a windowed one. A block of two
    groups holds one layer of the two, so twice as many are the same memory.
    """
    requests, engine = trace([(0.0, 60, 40)] * 8), clock_engine(asynchronous=asynchronous)
    settings = {"block_size": 4, "max_num_batched_tokens": 32, "max_num_seqs": 8, "engine": engine}
    one_window = run(requests, architecture=tiny_model((None, 8)), blocks=160, **settings)  # type: ignore[arg-type]
    no_window = run(requests, architecture=tiny_model((None, None)), blocks=80, **settings)  # type: ignore[arg-type]
    assert one_window.requests["finish_s"].max() < 0.8 * no_window.requests["finish_s"].max()


@given(
    st.lists(st.tuples(st.integers(1, 60), st.integers(1, 30)), min_size=1, max_size=12),
    st.sampled_from([(FULL, WINDOWED), (WINDOWED,), (FULL, CacheKind(1, 8, 3))]),
    st.integers(24, 60),
    st.sampled_from([{}, {"kind": "static"}, {"preemption": "swap"}, {"scheduler_reserve_full_isl": True}]),
)
def test_the_scheduler_loses_no_block(
    sizes: list[tuple[int, int]], groups: tuple[CacheKind, ...], blocks: int, settings: dict[str, Any]
) -> None:
    """Step by step, with jumps over equal steps in between, and preemptions wherever the pool is short."""
    parameters = scheduler_parameters(max_num_batched_tokens=16, max_num_seqs=8, **settings)
    pool = GroupedBlockPool(blocks, groups, parameters.chunk_limit)
    windows = sorted({kind.window for kind in groups if kind.window is not None})
    host = HostMemory(parameters.preemption, 1000, None)
    scheduler = Scheduler(parameters, pool, max_model_len=1000, windows=windows, host=host)
    for id, (prompt, output) in enumerate(sizes):
        scheduler.add(Request(id, prompt, output))
    now = 0.0
    while scheduler.running or scheduler.waiting:
        now += 1
        if steps := scheduler.steady_steps(ahead=0):
            scheduler.release(scheduler.advance_steady(steps, now))
        elif (step := scheduler.schedule(now)) is not None:
            scheduler.check()
            scheduler.complete(step, now)
        scheduler.check()
        assert now < 5000
    pool.settle()
    assert pool.used_blocks == 0
