"""How loaded a run was."""

from __future__ import annotations

import pytest

from servecast.model.regime import regime


@pytest.mark.parametrize(
    ("saturation", "waiting_ms", "expected"),
    [
        ("below", 10, "light"),
        ("at", 10, "knee"),
        ("above", 10, "overload"),
        (None, 10, "light"),
        (None, 100, "knee"),
        (None, 300, "overload"),
    ],
)
def test_regimes_go_by_the_time_that_requests_wait(saturation: str | None, waiting_ms: float, expected: str) -> None:
    summary = {"saturation": saturation, "queue_time": {"mean": waiting_ms}, "mean_e2el_ms": 1000.0}
    assert regime(summary) == expected
