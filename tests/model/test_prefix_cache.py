"""Prefix caching by hand: pools of a few blocks of 4 tokens, where every eviction can be told in advance."""

from __future__ import annotations

import pytest

from servecast.hardware.errors import InvariantError
from servecast.model.prefix_cache import CachingBlockPool
from servecast.model.request import Content, Request


def asks(id: int, prompt_tokens: int, content: Content = ()) -> Request:
    return Request(id, prompt_tokens, 100, content=content)


def prefill(pool: CachingBlockPool, request: Request) -> int:
    """Admit `request` and compute its whole prompt; returns the blocks it hit."""
    hits = pool.hit_blocks(request)
    pool.take(request, hits, pool.blocks_for(request.prompt_tokens) - hits)
    pool.publish(request, request.prompt_tokens)
    return hits


def finish(pool: CachingBlockPool, request: Request) -> None:
    pool.release(request, pool.blocks_for(request.prompt_tokens))


def test_a_prompt_that_comes_again_is_found_but_for_its_last_token() -> None:
    pool = CachingBlockPool(20, 4)
    assert prefill(pool, asks(0, 16, ((7, 16),))) == 0
    # Four full blocks are cached; the last token has to be computed, and with it the fourth block.
    assert pool.hit_blocks(asks(1, 16, ((7, 16),))) == 3
    assert pool.hit_blocks(asks(2, 17, ((7, 16),))) == 4


def test_hits_are_shared_not_allocated() -> None:
    pool = CachingBlockPool(20, 4)
    first, second = asks(0, 17, ((7, 16),)), asks(1, 17, ((7, 16),))
    prefill(pool, first)
    assert pool.free_blocks == 15
    assert pool.free_hits(second, 4) == 0
    assert prefill(pool, second) == 4
    assert pool.free_blocks == 14
    pool.check(5 + 5)
    finish(pool, first)
    assert pool.free_blocks == 15
    finish(pool, second)
    assert pool.free_blocks == 20
    assert pool.free_hits(second, 4) == 4


def test_a_shared_system_prompt_hits_up_to_its_last_full_block() -> None:
    pool = CachingBlockPool(20, 4)
    prefill(pool, asks(0, 30, ((-1, 10),)))
    # The third block holds two tokens of the system prompt and two private ones.
    assert pool.hit_blocks(asks(1, 30, ((-1, 10),))) == 2


def test_a_block_across_two_contents_is_found_by_both() -> None:
    pool = CachingBlockPool(20, 4)
    prefill(pool, asks(0, 13, ((1, 6), (2, 6))))
    assert pool.hit_blocks(asks(1, 13, ((1, 6), (2, 6)))) == 3
    assert pool.hit_blocks(asks(2, 13, ((1, 6), (3, 6)))) == 1
    assert pool.hit_blocks(asks(3, 13, ((1, 5), (2, 7)))) == 1
    assert pool.hit_blocks(asks(4, 13, ((2, 6), (1, 6)))) == 0


def test_the_same_content_after_another_one_is_not_found() -> None:
    pool = CachingBlockPool(20, 4)
    prefill(pool, asks(0, 9, ((1, 4), (2, 4))))
    assert pool.hit_blocks(asks(1, 9, ((3, 4), (2, 4)))) == 0


def test_nothing_is_found_for_private_prompts() -> None:
    pool = CachingBlockPool(20, 4)
    prefill(pool, asks(0, 16))
    assert pool.hit_blocks(asks(0, 16)) == 0
    assert pool.free_blocks == 16


def test_blocks_are_found_from_the_step_on_that_computes_them() -> None:
    pool = CachingBlockPool(20, 4)
    first, second = asks(0, 17, ((7, 16),)), asks(1, 17, ((7, 16),))
    pool.take(first, 0, 3)
    pool.publish(first, 9)
    assert pool.hit_blocks(second) == 2
    pool.extend(first, 2)
    pool.publish(first, 17)
    assert pool.hit_blocks(second) == 4


def test_the_longest_free_is_evicted_first_and_a_chain_from_its_end() -> None:
    pool = CachingBlockPool(8, 4)
    old, young = asks(0, 16, ((1, 16),)), asks(1, 16, ((2, 16),))
    prefill(pool, old)
    prefill(pool, young)
    finish(pool, old)
    finish(pool, young)
    prefill(pool, asks(2, 4))
    assert pool.hit_blocks(asks(3, 17, ((1, 16),))) == 3
    prefill(pool, asks(4, 12))
    assert pool.hit_blocks(asks(5, 17, ((1, 16),))) == 0
    assert pool.hit_blocks(asks(6, 17, ((2, 16),))) == 4


def test_a_hit_makes_a_prompt_young_again() -> None:
    pool = CachingBlockPool(8, 4)
    for id, content in enumerate((1, 2, 1)):
        request = asks(id, 13, ((content, 12),))
        prefill(pool, request)
        finish(pool, request)
    # In the queue from its head: the second's last private block and its three, then the other's.
    prefill(pool, asks(3, 16))
    assert pool.hit_blocks(asks(4, 13, ((2, 12),))) < 3
    assert pool.hit_blocks(asks(5, 13, ((1, 12),))) == 3


def test_new_blocks_do_not_evict_the_hits_of_their_request() -> None:
    pool = CachingBlockPool(5, 4)
    first = asks(0, 20, ((1, 20),))
    prefill(pool, first)
    finish(pool, first)
    second = asks(1, 20, ((1, 8), (2, 12)))
    assert pool.hit_blocks(second) == pool.free_hits(second, 2) == 2
    assert prefill(pool, second) == 2
    pool.check(5)
    assert pool.hit_blocks(asks(2, 21, ((1, 20),))) == 2


def test_of_two_equal_blocks_the_younger_one_is_found_once_the_older_is_evicted() -> None:
    pool = CachingBlockPool(8, 4)
    older, younger = asks(0, 8, ((1, 8),)), asks(1, 8, ((1, 8),))
    pool.take(older, 0, 2)
    pool.take(younger, 0, 2)
    pool.publish(older, 8)
    pool.publish(younger, 8)
    assert pool.free_blocks == 4
    finish(pool, older)
    probe = asks(2, 9, ((1, 8),))
    assert pool.free_hits(probe, 2) == 2
    prefill(pool, asks(3, 24))
    assert pool.hit_blocks(probe) == 2
    assert pool.free_hits(probe, 2) == 0


def test_decode_blocks_evict_what_is_cached() -> None:
    pool = CachingBlockPool(4, 4)
    first = asks(0, 16, ((1, 16),))
    prefill(pool, first)
    finish(pool, first)
    pool.extend_decodes(3)
    assert pool.hit_blocks(asks(1, 17, ((1, 16),))) == 1
    pool.check(3)


def test_a_preempted_request_finds_its_private_blocks_if_they_were_kept() -> None:
    pool = CachingBlockPool(8, 4)
    request = asks(0, 10, ((1, 8),))
    prefill(pool, request)
    request.emitted_tokens = 8
    pool.extend_decodes(2)
    pool.keep(request, 17)
    pool.release(request, 5)
    request.preemptions = 1
    assert pool.hit_blocks(request) == 4
    pool.take(request, 4, 1)
    pool.check(5)
    assert pool.hit_blocks(asks(1, 18, ((1, 8),))) == 2


def test_released_without_keeping_only_content_is_found_again() -> None:
    pool = CachingBlockPool(8, 4)
    request = asks(0, 17, ((1, 8),))
    prefill(pool, request)
    finish(pool, request)
    request.preemptions = 1
    assert pool.hit_blocks(request) == 2


def test_a_long_prompt_is_a_few_objects() -> None:
    pool = CachingBlockPool(10_000, 16)
    content = tuple((hash, 512) for hash in range(195))
    request = asks(0, 100_000, content)
    prefill(pool, request)
    assert len(pool._held[0].spans) == 195
    assert prefill(pool, asks(1, 100_000, content)) == 6240
    pool.check(2 * 6250)


def test_allocating_more_than_is_free_is_an_error() -> None:
    pool = CachingBlockPool(4, 4)
    with pytest.raises(InvariantError, match="5 blocks are allocated, 4 are free"):
        pool.extend_decodes(5)


def test_taking_more_than_is_cached_is_an_error() -> None:
    pool = CachingBlockPool(4, 4)
    with pytest.raises(InvariantError, match="takes 1 cached blocks of 0"):
        pool.take(asks(0, 8, ((1, 8),)), 1, 1)


def test_check_tells_a_lost_block() -> None:
    pool = CachingBlockPool(4, 4)
    prefill(pool, asks(0, 8, ((1, 8),)))
    pool.check(2)
    with pytest.raises(InvariantError, match="3 blocks held"):
        pool.check(3)
    pool.free_blocks -= 1
    with pytest.raises(InvariantError, match="2 blocks in the free queue, 1 counted"):
        pool.check(3)
