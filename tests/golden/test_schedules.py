"""Schedules worked out by hand: every step lasts 1 s, so that times are step numbers."""

from __future__ import annotations

import numpy as np
import pytest

from builders import a_gpu, clock_engine, run, tiny_model, trace
from servecast.model.simulation import SimulationResult

# Prompt and output tokens of requests 0 to 4, which all arrive at 0. The pool has 6 blocks of 4 tokens.
FIVE = trace([(0.0, 8, 3), (0.0, 4, 6), (0.0, 7, 2), (0.0, 3, 1), (0.0, 9, 4)])
# KV of one block of 4 tokens: 2 layers x (K and V) x 4 heads x 64 x 2 bytes a token.
BLOCK_BYTES = 4 * 2 * 2 * 4 * 64 * 2


def step_rows(result: SimulationResult, *names: str) -> list[tuple[float, ...]]:
    """Columns of the steps; runs of equal steps taken apart."""
    count = result.steps["count"].astype(int)
    return list(zip(*(np.repeat(result.steps[name], count).tolist() for name in names), strict=True))


def column(result: SimulationResult, name: str) -> list[float]:
    return [round(value, 9) for value in result.requests[name].tolist()]


@pytest.mark.parametrize("coast", [True, False])
def test_five_requests_with_a_preemption_by_recomputation(coast: bool) -> None:
    """Blocks: 0 takes 2, 1 takes 1, 2 takes 2, 3 takes 1; 4 would need 3 and waits.

    step  blocks  what happens
       1       6  prompts of 0 (8 tokens), 1 (4), 2 (7) and 3 (3); 3 ends, 1 block comes free
       2       5  0 and 1 want a block each, one is free: 2, admitted last, loses its 7 tokens and its 2 blocks
       3       5  0 ends; 2 (now 8 tokens, 2 blocks) cannot come back before that
       4       4  1 goes on; 2 is computed again, emits its last token; 4 (3 blocks) does not fit yet
       5       5  1 goes on; the prompt of 4
       6       6  1 takes its third block and ends
       7, 8    3  4 goes on and ends
    """
    result = run(FIVE, blocks=6, block_size=4, coast=coast)
    assert step_rows(result, "decodes", "chunks", "prefill_tokens", "used_blocks") == [
        (0, 4, 22, 6),
        (2, 0, 0, 5),
        (2, 0, 0, 5),
        (1, 1, 8, 4),
        (1, 1, 9, 5),
        (2, 0, 0, 6),
        (1, 0, 0, 3),
        (1, 0, 0, 3),
    ]
    assert column(result, "scheduled_s") == [0, 0, 0, 0, 4]
    assert column(result, "first_token_s") == [1, 1, 1, 1, 5]
    assert column(result, "finish_s") == [3, 6, 4, 1, 8]
    assert column(result, "preemptions") == [0, 0, 1, 0, 0]
    assert column(result, "recomputed_tokens") == [0, 0, 7, 0, 0]
    assert result.resumed_gaps_s == pytest.approx([3])  # request 2: tokens at 1 and 4


@pytest.mark.parametrize("coast", [True, False])
def test_five_requests_with_a_preemption_by_swap(coast: bool) -> None:
    """As above, but the 2 blocks of request 2 are copied out (0.25 s each) before step 2 and in again before step 4,
    where its last token is a decode rather than a prompt of 8.
    """
    gpu = a_gpu(pcie_bytes_per_s=4.0 * BLOCK_BYTES)
    result = run(FIVE, gpu=gpu, blocks=6, block_size=4, coast=coast, preemption="swap")
    assert step_rows(result, "start_s", "decodes", "prefill_tokens", "used_blocks") == [
        (0.0, 0, 22, 6),
        (1.5, 2, 0, 5),
        (2.5, 2, 0, 5),
        (4.0, 2, 0, 4),
        (5.0, 1, 9, 5),
        (6.0, 2, 0, 6),
        (7.0, 1, 0, 3),
        (7.0 if coast else 8.0, 1, 0, 3),  # a run of two steps, taken apart, has one start
    ]
    assert column(result, "first_token_s") == [1, 1, 1, 1, 6]
    assert column(result, "finish_s") == [3.5, 7, 5, 1, 9]
    assert column(result, "recomputed_tokens") == [0, 0, 0, 0, 0]
    assert result.resumed_gaps_s == pytest.approx([4])
    assert result.swap_bytes == 4 * BLOCK_BYTES
    assert result.seconds_by_resource["host_link"] == pytest.approx(1.0)


def test_without_host_memory_a_swap_becomes_a_recomputation() -> None:
    result = run(FIVE, blocks=6, block_size=4, preemption="swap", swap_space_gib=0.0)
    assert column(result, "finish_s") == [3, 6, 4, 1, 8]
    assert result.swap_fallbacks == 1
    assert result.swap_bytes == 0


@pytest.mark.parametrize("coast", [True, False])
@pytest.mark.parametrize(("asynchronous", "first_token_s"), [(False, 3.0), (True, 4.0)])
def test_an_arrival_during_step_two_runs_in_step_three_or_four(
    asynchronous: bool, first_token_s: float, coast: bool
) -> None:
    """With asynchronous scheduling step 3 is planned when step 2 begins, at 1 s; the arrival at 1.5 s is too late."""
    workload = trace([(0.0, 4, 10), (1.5, 4, 2)])
    result = run(workload, engine=clock_engine(asynchronous=asynchronous), coast=coast)
    assert column(result, "first_token_s") == [1.0, first_token_s]
    assert column(result, "finish_s") == [10.0, first_token_s + 1]


def test_an_arrival_at_the_end_of_a_step_is_seen_by_the_plan_made_then() -> None:
    result = run(trace([(0.0, 4, 10), (2.0, 4, 1)]))
    assert column(result, "first_token_s") == [1.0, 3.0]


def test_a_long_prompt_is_computed_in_chunks_beside_decodes() -> None:
    """Budget 8: the prompt of 20 tokens gets 7 a step beside the decode, so three steps (7 + 7 + 6)."""
    result = run(trace([(0.0, 4, 6), (0.5, 20, 1)]), max_num_batched_tokens=8, max_num_seqs=8)
    assert step_rows(result, "decodes", "prefill_tokens")[:4] == [(0, 4), (1, 7), (1, 7), (1, 6)]
    assert column(result, "first_token_s") == [1.0, 4.0]


def test_without_chunked_prefill_a_long_prompt_holds_up_the_queue() -> None:
    """Budget 8, one decode: the prompt of 8 waits for a step of its own; the prompt of 2 behind it would fit."""
    workload = trace([(0.0, 4, 4), (0.5, 8, 1), (0.5, 2, 1)])
    result = run(workload, max_num_batched_tokens=8, max_num_seqs=8, enable_chunked_prefill=False)
    assert column(result, "first_token_s") == [1.0, 5.0, 6.0]


def test_watermark_keeps_blocks_free_at_admission() -> None:
    """8 blocks of 4, half of them reserved: two prompts of 2 blocks each get in, the third would leave 2 blocks."""
    workload = trace([(0.0, 8, 1), (0.0, 8, 1), (0.0, 8, 1)])
    result = run(workload, blocks=8, block_size=4, watermark=0.5)
    assert column(result, "first_token_s") == [1.0, 1.0, 2.0]


def test_one_at_a_time_with_max_num_seqs_one() -> None:
    result = run(trace([(0.0, 4, 2), (0.0, 4, 2)]), max_num_seqs=1)
    assert column(result, "finish_s") == [2.0, 4.0]


def test_round_robin_over_two_replicas() -> None:
    result = run(trace([(0.0, 4, 2)] * 4), max_num_seqs=1, replicas=2)
    assert column(result, "replica") == [0, 1, 0, 1]
    assert column(result, "finish_s") == [2.0, 2.0, 4.0, 4.0]


def test_the_server_delays_what_the_engine_sees() -> None:
    result = run(trace([(1.0, 4, 1)]), engine=clock_engine(server_s=0.5))
    assert column(result, "arrival_s") == [1.0]
    assert column(result, "queued_s") == [1.5]
    assert column(result, "finish_s") == [2.5]


@pytest.mark.parametrize("coast", [True, False])
def test_windowed_layers_change_no_schedule(coast: bool) -> None:
    plain = run(FIVE, blocks=6, block_size=4, coast=coast)
    windowed = run(FIVE, architecture=tiny_model((None, 4)), blocks=12, block_size=4, coast=coast)
    assert plain.requests["finish_s"].max() == 8
    assert windowed.requests["state"].tolist() == [1] * 5
