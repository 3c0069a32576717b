"""The host link: a lane for each direction, and a latency for each of a block's many copies."""

from __future__ import annotations

import pytest
import simpy

from servecast.model.host_link import HostLink, LinkParameters


def ends(link_and_env: tuple[HostLink, simpy.Environment], *exchanges: tuple[int, int]) -> list[float]:
    """When each of `exchanges` (blocks out, blocks in), all begun at 0, is done."""
    link, env = link_and_env
    done: list[float] = []

    def one(out_blocks: int, in_blocks: int) -> simpy.events.ProcessGenerator:
        yield env.process(link.exchange(out_blocks, in_blocks))
        done.append(env.now)

    for exchange in exchanges:
        env.process(one(*exchange))
    env.run()
    return done


@pytest.fixture
def link_and_env() -> tuple[HostLink, simpy.Environment]:
    """A block takes 1 s for its bytes and four times 0.25 s for its copies."""
    env = simpy.Environment()
    parameters = LinkParameters(block_bytes=100.0, bytes_per_s=100.0, copies_per_block=4, copy_s=0.25)
    return HostLink(env, parameters), env


def test_a_block_is_many_copies_that_each_take_time_besides_their_bytes() -> None:
    assert LinkParameters(block_bytes=100.0, bytes_per_s=100.0).seconds(3) == 3.0
    assert LinkParameters(100.0, 100.0, copies_per_block=4, copy_s=0.25).seconds(3) == 6.0


def test_out_and_in_run_side_by_side(link_and_env: tuple[HostLink, simpy.Environment]) -> None:
    assert ends(link_and_env, (2, 3)) == [6.0]
    assert link_and_env[0].bytes_moved == 500.0


def test_copies_the_same_way_take_turns(link_and_env: tuple[HostLink, simpy.Environment]) -> None:
    assert ends(link_and_env, (1, 0), (1, 0), (0, 3)) == [2.0, 4.0, 6.0]


def test_nothing_to_copy_takes_no_time(link_and_env: tuple[HostLink, simpy.Environment]) -> None:
    assert ends(link_and_env, (0, 0)) == [0.0]
