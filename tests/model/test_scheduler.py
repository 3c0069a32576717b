"""The scheduler's decisions one by one, without a clock."""

from __future__ import annotations

from typing import Any

import pytest

from builders import scheduler_parameters
from servecast.model.block_pool import BlockPool
from servecast.model.preemption import HostMemory
from servecast.model.request import Request
from servecast.model.scheduler import Scheduler


def scheduler(blocks: int = 100, block_size: int = 4, swap_blocks: int = 0, **parameters: Any) -> Scheduler:
    settings = scheduler_parameters(**parameters)
    host = HostMemory(settings.preemption, swap_blocks, None)
    return Scheduler(settings, BlockPool(blocks, block_size), max_model_len=1000, host=host)


def add(target: Scheduler, *sizes: tuple[int, int]) -> list[Request]:
    requests = [Request(id, prompt, output) for id, (prompt, output) in enumerate(sizes)]
    for request in requests:
        assert target.add(request) is None
    return requests


@pytest.mark.parametrize(
    ("prompt", "output", "parameters", "reason"),
    [
        (990, 20, {}, "over_max_model_len"),
        (500, 10, {"enable_chunked_prefill": False, "max_num_batched_tokens": 256}, "prompt_over_token_budget"),
        (400, 10, {}, "over_kv_pool"),
    ],
)
def test_requests_that_never_run_are_rejected_with_the_reason(
    prompt: int, output: int, parameters: dict[str, Any], reason: str
) -> None:
    assert scheduler(**parameters).add(Request(0, prompt, output)) == reason


def test_or_they_wait_and_hold_up_the_queue() -> None:
    target = scheduler(on_unschedulable="wait")
    add(target, (500, 10), (4, 4))
    assert target.schedule(0.0) is None
    assert len(target.waiting) == 2


def test_running_requests_come_before_waiting_ones() -> None:
    target = scheduler(max_num_batched_tokens=8, max_num_seqs=8)
    first, second = add(target, (6, 5), (6, 5))
    step = target.schedule(0.0)
    assert step is not None
    assert step.chunks == [(0, 6), (0, 2)]
    target.complete(step, 1.0)
    step = target.schedule(1.0)
    assert step is not None
    assert (step.steady, step.chunks) == (1, [(2, 4)])
    assert first.first_token_s == 1.0
    assert second.first_token_s is None
    target.check()


def test_a_step_with_a_preemption_admits_nobody() -> None:
    """Three requests of a block each, all full, in three blocks: the first takes over those of the others."""
    target = scheduler(blocks=3)
    _, second, third = add(target, (4, 6), (4, 6), (4, 6))
    target.complete(target.schedule(0.0), 1.0)  # type: ignore[arg-type]  # there is a step
    assert list(target.running) == [0, 1, 2]
    step = target.schedule(1.0)
    assert step is not None
    assert step.chunks == ()
    assert [request.id for request in target.waiting] == [1, 2]
    assert (second.preemptions, third.preemptions) == (1, 1)
    target.check()


def test_reserving_the_full_prompt_admits_later() -> None:
    """Chunks of 4 tokens, 8 of 10 blocks taken: the first chunk of 16 tokens fits, all of it (4 blocks) does not."""
    for reserve, admitted in ((False, 2), (True, 1)):
        target = scheduler(blocks=10, max_num_batched_tokens=33, max_num_seqs=8, scheduler_reserve_full_isl=reserve)
        add(target, (32, 4), (16, 4))
        target.schedule(0.0)
        assert len(target.running) == admitted


def test_a_recomputed_sequence_over_the_budget_comes_back_in_pieces() -> None:
    """Prompts may not be cut, but prompt and outputs together have outgrown the budget of 8."""
    target = scheduler(blocks=5, max_num_batched_tokens=8, max_num_seqs=8, enable_chunked_prefill=False)
    request = Request(0, 8, 12)
    request.emitted_tokens = 4
    target.waiting.push(request)
    assert target.schedule(0.0).chunks == [(0, 8)]  # type: ignore[union-attr]  # there is a step
    assert target.schedule(1.0).chunks == [(8, 4)]  # type: ignore[union-attr]  # there is a step


def test_steady_steps_end_with_the_next_finish() -> None:
    target = scheduler()
    add(target, (4, 6), (4, 3))
    target.complete(target.schedule(0.0), 1.0)  # type: ignore[arg-type]  # there is a step
    assert target.steady_steps(ahead=0) == 2
    finished = target.advance_steady(2, 3.0)
    assert [request.id for request in target.release(finished)] == [1]
    assert target.steady_steps(ahead=0) == 3
    target.check()


def test_no_steady_steps_while_somebody_could_be_admitted() -> None:
    target = scheduler(max_num_seqs=2)
    add(target, (4, 6), (4, 3))
    target.complete(target.schedule(0.0), 1.0)  # type: ignore[arg-type]  # there is a step
    late = Request(7, 4, 4)
    target.add(late)
    assert target.steady_steps(ahead=0) == 2  # both places are taken
    target.release(target.advance_steady(2, 3.0))
    assert target.steady_steps(ahead=0) == 0


def test_check_finds_a_lost_block() -> None:
    from servecast.hardware.errors import InvariantError

    target = scheduler()
    add(target, (4, 6))
    target.schedule(0.0)
    target.pool.free_blocks -= 1
    with pytest.raises(InvariantError, match="blocks held"):
        target.check()
