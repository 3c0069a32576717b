"""Schedules of a pipeline worked out by hand: two stages of 1 s each, no host time, hand-overs of some microseconds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from builders import clock_engine, run, trace
from servecast.hardware.engines import Elementwise, HostTimes
from servecast.model.layout import ReplicaLayout
from servecast.model.simulation import SimulationResult
from servecast.model.workload import WorkloadParameters


def two_stages(
    workload: WorkloadParameters, *, blocks: int = 1000, host_s: float = 0.0, **scheduler: Any
) -> SimulationResult:
    """The tiny model's two layers in a stage each; a layer takes 1 s whatever is in the step."""
    engine = replace(
        clock_engine(),
        host=HostTimes(step_s=host_s, request_s=0.0, server_s=0.0),
        elementwise=Elementwise(kernel_s=0.25, e_m=1e20),
    )
    layout = ReplicaLayout(pipeline_parallel_size=2, kv_pool_blocks=blocks, block_size=16)
    return run(workload, engine=engine, layout=layout, **scheduler)


def times(result: SimulationResult, name: str) -> list[float]:
    """To a tenth of a second: the hand-overs disappear."""
    return [round(value, 1) for value in result.requests[name].tolist()]


def test_a_lone_request_passes_both_stages_for_every_token() -> None:
    result = two_stages(trace([(0.0, 16, 3)]))
    assert times(result, "first_token_s") == [2.0]
    assert times(result, "finish_s") == [6.0]


def test_two_lanes_keep_both_stages_busy() -> None:
    """Each prompt fills the budget, so they go in two steps; from then on the lanes take turns.

    lane  first stage     second stage    tokens
       0  0-1, 2-3, 4-5   1-2, 3-4, 5-6   2, 4, 6
       1  1-2, 3-4, 5-6   2-3, 4-5, 6-7   3, 5, 7
    """
    result = two_stages(trace([(0.0, 16, 3), (0.0, 16, 3)]), max_num_batched_tokens=16)
    assert times(result, "first_token_s") == [2.0, 3.0]
    assert times(result, "finish_s") == [6.0, 7.0]


def test_requests_whose_prompts_ran_together_stay_together() -> None:
    """Both fit the budget: one lane, and the second stage idles while the first works."""
    result = two_stages(trace([(0.0, 16, 3), (0.0, 16, 3)]))
    assert times(result, "finish_s") == [6.0, 6.0]
    assert result.steps["decodes"].tolist() == [0, 2, 2]


def test_chunks_of_a_prompt_follow_each_other_through_the_stages() -> None:
    """Chunk 1 0-2, chunk 2 1-3; two are on their way, so chunk 3 goes when the first is back: 2-4."""
    result = two_stages(trace([(0.0, 48, 1)]), max_num_batched_tokens=16)
    assert times(result, "first_token_s") == [4.0]


def test_an_arrival_is_seen_when_the_oldest_step_is_back() -> None:
    """It comes at 0.5 while the engine waits for the step of the first, until 2: it joins that one's lane."""
    result = two_stages(trace([(0.0, 16, 3), (0.5, 16, 2)]))
    assert times(result, "scheduled_s") == [0.0, 2.0]
    assert times(result, "first_token_s") == [2.0, 4.0]


def test_who_comes_while_the_engine_sends_a_step_off_begins_the_other_lane() -> None:
    """The first step is sent off from 0 to 0.5; the second request came at 0.2 and follows, from 0.5 to 1."""
    result = two_stages(trace([(0.0, 16, 2), (0.2, 16, 2)]), host_s=0.5)
    assert times(result, "scheduled_s") == [0.0, 0.5]
    assert times(result, "first_token_s") == [2.5, 3.5]


def test_a_victim_is_of_the_lane_that_is_planned() -> None:
    """Four blocks. Lane 0 wants its third at 2, lane 1 at 3: the pool has none, and lane 1 is on its way when lane 0 is
    planned, so that request 0 preempts itself although request 1 was admitted last.
    """
    result = two_stages(trace([(0.0, 32, 3), (0.0, 32, 3)]), blocks=4, max_num_batched_tokens=32)
    assert result.requests["preemptions"].tolist() == [1, 0]
    assert (result.requests["finish_s"] > 0).all()


@pytest.mark.parametrize("swap_overlap", [False, True])
def test_a_swapped_request_comes_back_with_its_tokens(swap_overlap: bool) -> None:
    result = two_stages(
        trace([(0.0, 32, 3), (0.0, 32, 3)]),
        blocks=4,
        max_num_batched_tokens=32,
        preemption="swap",
        swap_overlap=swap_overlap,
    )
    assert result.swap_bytes > 0
    assert result.requests["recomputed_tokens"].sum() == 0
    assert (result.requests["finish_s"] > 0).all()
