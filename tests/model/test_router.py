"""Routers: which replica takes a request."""

from __future__ import annotations

from typing import Any

from servecast.model.request import Request
from servecast.model.router import ROUTERS, RoundRobin


def test_round_robin_takes_each_in_turn_whatever_the_request() -> None:
    fleet: Any = ["first", "second", "third"]
    router = RoundRobin()
    assert [router.choose(Request(7, 10 * i + 1, 1), fleet) for i in range(5)] == [*fleet, "first", "second"]


def test_routers_share_no_state() -> None:
    fleet: Any = ["first", "second"]
    make = ROUTERS["round_robin"]
    chosen: list[Any] = [make().choose(Request(i, 1, 1), fleet) for i in range(3)]
    assert chosen == ["first"] * 3
