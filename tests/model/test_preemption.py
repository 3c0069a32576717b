"""Preemption: the victim, host memory, and the cheaper of two ways."""

from __future__ import annotations

import pytest

from servecast.hardware.errors import InvariantError
from servecast.model.preemption import VICTIMS, HostMemory, PreemptionCosts, PreemptionParameters
from servecast.model.request import Request


@pytest.mark.parametrize(("victim", "chosen"), [("last_admitted", 3), ("lowest_priority", 2), ("most_blocks", 2)])
def test_the_victim_and_of_equals_the_newest(victim: str, chosen: int) -> None:
    """Requests 0 to 3 in the order of admission: 1 and 2 have the lowest priority and the most blocks."""
    running = [Request(0, 10, 10, 0), Request(1, 40, 10, 7), Request(2, 40, 10, 7), Request(3, 20, 10, 5)]
    newest_first = reversed(running)
    assert VICTIMS[victim](newest_first, lambda request: request.prompt_tokens // 10).id == chosen


def test_swapped_blocks_fill_host_memory_and_leave_it_again() -> None:
    host = HostMemory(PreemptionParameters(mode="swap"), 10, None)
    assert host.store(Request(0, 50, 10), 7)
    assert not host.store(Request(1, 50, 10), 4)
    assert (host.free_blocks, host.fallbacks) == (3, 1)
    host.check(held_blocks=7)
    host.fetch(7)
    assert host.free_blocks == 10
    with pytest.raises(InvariantError, match="7 host blocks held"):
        host.check(held_blocks=7)


def test_recomputation_never_uses_host_memory() -> None:
    host = HostMemory(PreemptionParameters(mode="recompute"), 10, None)
    assert not host.store(Request(0, 50, 10), 1)
    assert (host.free_blocks, host.fallbacks) == (10, 0)


@pytest.mark.parametrize(("computed", "swapped"), [(50, False), (100, False), (200, True)])
def test_auto_takes_the_cheaper_way(computed: int, swapped: bool) -> None:
    """Swapping costs 10 ms a block of 10 tokens, recomputation 0.01 ms for each token squared: alike at 100 tokens."""
    costs = PreemptionCosts(swap_s=lambda blocks: 0.01 * blocks, recompute_s=lambda tokens: 1e-5 * tokens**2)
    request = Request(0, 500, 10)
    request.computed_tokens = computed
    assert HostMemory(PreemptionParameters(mode="auto"), 100, costs).store(request, computed // 10) is swapped


def test_auto_without_costs_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(InvariantError, match="needs the costs"):
        HostMemory(PreemptionParameters(mode="auto"), 100, None).store(Request(0, 5, 5), 1)
