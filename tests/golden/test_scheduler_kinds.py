"""Scheduler kinds and prefix caching, worked out by hand: every step lasts 1 s, so that times are step numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from builders import run, trace
from servecast.model.policies import PolicyParameters
from servecast.model.simulation import SimulationResult

# Prompt and output tokens; blocks hold 4 tokens. A and B need two blocks each at the end, and so does C.
A_B_C = trace([(0.0, 4, 4), (0.0, 4, 2), (0.5, 4, 2)])


def finishes(result: SimulationResult) -> list[float]:
    return [round(value, 9) for value in result.requests["finish_s"].tolist()]


def prefills(result: SimulationResult) -> list[float]:
    count = result.steps["count"].astype(int)
    return np.repeat(result.steps["prefill_tokens"], count).tolist()


@pytest.mark.parametrize("coast", [True, False])
@pytest.mark.parametrize(
    ("kind", "finish_s"),
    [
        ("vllm", [4, 2, 4]),  # C takes the place of B in step 3
        ("textbook", [4, 2, 4]),
        ("orca", [4, 2, 4]),
        ("static", [4, 2, 6]),  # C waits until A has ended too
    ],
)
def test_two_places_for_three_requests(kind: str, finish_s: list[float], coast: bool) -> None:
    result = run(A_B_C, kind=kind, max_num_seqs=2, block_size=4, coast=coast)
    assert finishes(result) == finish_s


@pytest.mark.parametrize("coast", [True, False])
@pytest.mark.parametrize(
    ("kind", "finish_s", "preempted"),
    [
        # In step 2 A and B want a second block each and one is free: B goes, and is back with C when A has ended.
        ("vllm", [4, 5, 6], 1),
        ("textbook", [4, 5, 6], 1),
        # Two blocks reserved for each: one at a time, and nobody is preempted.
        ("orca", [4, 6, 8], 0),
        ("static", [4, 6, 8], 0),
    ],
)
def test_three_blocks_for_three_requests(kind: str, finish_s: list[float], preempted: int, coast: bool) -> None:
    result = run(A_B_C, kind=kind, blocks=3, block_size=4, coast=coast)
    assert finishes(result) == finish_s
    assert result.requests["preemptions"].sum() == preempted


@pytest.mark.parametrize(
    ("kind", "first_token_s"),
    [
        (
            "vllm",
            [1, 3, 3],
        ),  # 7 of the 8 tokens beside the decode in step 2, the last one and the prompt of 2 in step 3
        ("textbook", [1, 5, 6]),  # the prompt of 8 needs a step of its own, and the one of 2 stands behind it
        ("orca", [1, 5, 6]),
        ("static", [1, 6, 6]),  # both prompts take steps 5 and 6, and their first tokens come together
    ],
)
def test_who_cuts_prompts(kind: str, first_token_s: list[float]) -> None:
    workload = trace([(0.0, 4, 4), (0.5, 8, 1), (0.5, 2, 1)])
    result = run(workload, kind=kind, max_num_batched_tokens=8, max_num_seqs=8)
    assert result.requests["first_token_s"].tolist() == first_token_s


def test_a_static_batch_computes_its_prompts_in_as_many_steps_as_they_take() -> None:
    """Three prompts of 4 in steps of 8 tokens; first tokens at the end of the second step, then all decode together."""
    result = run(trace([(0.0, 4, 2)] * 3), kind="static", max_num_batched_tokens=8, max_num_seqs=8)
    assert result.requests["first_token_s"].tolist() == [2, 2, 2]
    assert finishes(result) == [3, 3, 3]


def test_a_static_batch_has_max_num_seqs_requests() -> None:
    result = run(trace([(0.0, 4, 2)] * 5), kind="static", max_num_batched_tokens=8, max_num_seqs=3)
    assert finishes(result) == [3, 3, 3, 5, 5]


def test_a_static_batch_has_what_the_pool_holds_to_the_end() -> None:
    """Two blocks for each request of 4 + 2 tokens, four in the pool."""
    result = run(trace([(0.0, 4, 2)] * 3), kind="static", max_num_batched_tokens=8, blocks=4, block_size=4)
    assert finishes(result) == [2, 2, 4]


def test_a_limit_of_partial_prefills_shares_the_budget() -> None:
    """Two prompts of 12 get 4 of 8 tokens each in a step; the third one waits for a place among the two."""
    workload = trace([(0.0, 12, 1)] * 3)
    alone = run(workload, max_num_batched_tokens=8, max_num_seqs=8)
    shared = run(workload, max_num_batched_tokens=8, max_num_seqs=8, max_num_partial_prefills=2)
    assert finishes(alone) == [2, 3, 5]
    assert finishes(shared) == [3, 3, 6]


def test_short_prompts_pass_long_ones_over_their_limit() -> None:
    """One long prompt (over 4 tokens) at a time: the one of 4 passes the second, which begins when the first ends."""
    workload = trace([(0.0, 8, 1), (0.0, 8, 1), (0.0, 4, 1)])
    limits: dict[str, Any] = {"long_prefill_token_threshold": 4, "max_num_partial_prefills": 2}
    result = run(workload, max_num_batched_tokens=8, max_num_seqs=8, **limits)
    assert finishes(result) == [2, 3, 1]


# Prefix caching


@pytest.mark.parametrize(("prompt", "computed"), [(17, 1), (16, 4), (3, 3)])
def test_a_repeated_prompt_computes_what_is_behind_its_full_blocks_and_the_last_token(
    prompt: int, computed: int
) -> None:
    workload = trace([(0.0, prompt, 1), (5.0, prompt, 1)], distinct_prompts=1)
    result = run(workload, block_size=4, enable_prefix_caching=True)
    assert prefills(result) == [prompt, computed]
    assert (result.prefix_tokens, result.prefix_hit_tokens) == (2 * prompt, prompt - computed)


def test_prompts_computed_in_the_same_step_share_blocks_already() -> None:
    result = run(trace([(0.0, 17, 1)] * 2, distinct_prompts=1), block_size=4, enable_prefix_caching=True)
    assert prefills(result) == [18]
    assert result.steps["used_blocks"].tolist() == [6]


def test_a_shared_system_prompt_is_computed_once() -> None:
    """Of 10 shared tokens two full blocks can be found."""
    workload = trace([(0.0, 20, 1), (5.0, 30, 1)], shared_prefix_tokens=10)
    assert prefills(run(workload, block_size=4, enable_prefix_caching=True)) == [20, 22]
    assert prefills(run(workload, block_size=4)) == [20, 30]


@pytest.mark.parametrize("coast", [True, False])
def test_a_preempted_request_finds_its_own_full_blocks(coast: bool) -> None:
    """The five requests of test_schedules.py: request 2 loses 7 tokens in step 2. The two blocks that 0 and 1 take then
    are empty ones, so its full block is still there in step 4: 4 of its 8 tokens are left to compute, 3 of them again.
    """
    five = trace([(0.0, 8, 3), (0.0, 4, 6), (0.0, 7, 2), (0.0, 3, 1), (0.0, 9, 4)])
    result = run(five, blocks=6, block_size=4, coast=coast, enable_prefix_caching=True)
    assert prefills(result)[:5] == [22, 0, 0, 4, 9]
    assert finishes(result) == [3, 6, 4, 1, 8]
    assert result.requests["recomputed_tokens"].tolist() == [0, 0, 3, 0, 0]
    assert result.prefix_hit_tokens == 0  # of prompts that come for the first time


@pytest.mark.parametrize(("policy", "finish_s"), [("fcfs", [2, 4, 6]), ("longest_prefix", [2, 6, 4])])
def test_longest_prefix_first_takes_who_can_reuse_most(policy: str, finish_s: list[float]) -> None:
    """One place; request 2 repeats the prompt of 0, request 1 came before it with another one."""
    workload = trace([(0.0, 17, 2), (0.5, 17, 2), (0.5, 17, 2)], distinct_prompts=2)
    settings: dict[str, Any] = {"max_num_seqs": 1, "enable_prefix_caching": True, "policy": PolicyParameters(policy)}
    assert finishes(run(workload, block_size=4, **settings)) == finish_s
