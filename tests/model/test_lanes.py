"""Lanes: which one is planned next, and where a request is."""

from __future__ import annotations

from servecast.model.decode_batch import DecodeBatch
from servecast.model.lanes import Lanes
from servecast.model.request import Request


def a_request(id: int) -> Request:
    request = Request(id, prompt_tokens=8, output_tokens=4)
    request.computed_tokens, request.emitted_tokens = 8, 1
    return request


def test_a_free_lane_with_members_comes_before_an_empty_one() -> None:
    lanes = Lanes([DecodeBatch(4) for _ in range(3)])
    lanes.turn_from(busy={0, 1}).add(a_request(7))
    lanes.turn_from(busy={2})
    assert lanes.index == 0
    assert lanes.turn_from(busy=()) is lanes.batch_of(a_request(7))
    assert lanes.index == 2


def test_a_request_that_does_not_decode_is_in_no_lane() -> None:
    assert Lanes([DecodeBatch(4), DecodeBatch(4)]).batch_of(a_request(1)) is None
