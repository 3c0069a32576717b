"""What sets requests apart: shares of priorities and tenants, and what prompts have in common."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from servecast.model.identity import SHARED_PREFIX, Identity, IdentityParameters, draw_identity


def drawn(prompts: list[int], seed: int = 0, **parameters: Any) -> Identity:
    lengths = np.array(prompts, dtype=np.int64)
    return draw_identity(
        IdentityParameters(**parameters), lengths, np.random.default_rng(seed), np.random.default_rng(seed + 1)
    )


def test_by_default_requests_have_nothing_but_their_lengths() -> None:
    identity = drawn([5, 6])
    assert identity.prompt_tokens.tolist() == [5, 6]
    assert (identity.priority, identity.tenant, identity.content) == (None, None, None)


def test_shares_need_not_add_up_to_one() -> None:
    identity = drawn([1] * 20_000, priorities={-1: 1.0, 10: 3.0}, tenants={"free": 9.0, "paid": 1.0})
    assert identity.priority is not None
    assert identity.tenant is not None
    assert set(identity.priority.tolist()) == {-1, 10}
    assert (identity.priority == 10).mean() == pytest.approx(0.75, abs=0.01)
    assert (identity.tenant == "paid").mean() == pytest.approx(0.1, abs=0.01)


def test_distinct_prompts_come_again_in_turn_with_content_and_length() -> None:
    identity = drawn([5, 7, 9, 11, 13], distinct_prompts=2)
    assert identity.prompt_tokens.tolist() == [5, 7, 5, 7, 5]
    assert identity.content == [((0, 5),), ((1, 7),), ((0, 5),), ((1, 7),), ((0, 5),)]


def test_more_distinct_prompts_than_requests_are_all_different() -> None:
    assert drawn([5, 7], distinct_prompts=100).content == [((0, 5),), ((1, 7),)]


def test_a_shared_prefix_is_all_that_private_prompts_share() -> None:
    assert drawn([10, 4], shared_prefix_tokens=6).content == [((SHARED_PREFIX, 6),), ((SHARED_PREFIX, 4),)]


def test_distinct_prompts_may_begin_alike() -> None:
    identity = drawn([10, 6, 4], distinct_prompts=3, shared_prefix_tokens=6)
    assert identity.content == [((SHARED_PREFIX, 6), (0, 4)), ((SHARED_PREFIX, 6),), ((SHARED_PREFIX, 4),)]


def test_recorded_contents_are_taken_as_they_are() -> None:
    recorded = (((3, 5),), (), ((3, 5), (4, 1)))
    assert drawn([5, 6], contents=recorded, distinct_prompts=None).content == recorded[:2]
