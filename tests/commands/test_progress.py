"""Progress where stderr is no terminal."""

from __future__ import annotations

import pytest

from servecast.commands.progress import Lines, progress_bar


def test_quick_work_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with progress_bar("quick") as report:
        report(1, 2)
        report(2, 2)
    assert capsys.readouterr().err == ""


def test_long_work_says_how_much_how_fast_and_how_long(capsys: pytest.CaptureFixture[str]) -> None:
    clock = iter([0.0, 10.0, 14.0, 20.0, 22.0, 36.0, 40.0])
    lines = Lines("sweep", lambda: next(clock))
    for done in (100, 120, 150, 160, 230, 1000):
        lines.report(done, 1000)
    # From 100 at 10 s on, whatever was there before: 50 in 10 s, then 130 in 26 s.
    assert capsys.readouterr().err.splitlines() == [
        "sweep: 150 of 1,000, 5.0/s, 170 s left",
        "sweep: 230 of 1,000, 5.0/s, 154 s left",
    ]


def test_the_first_call_may_come_late(capsys: pytest.CaptureFixture[str]) -> None:
    clock = iter([0.0, 60.0])
    Lines("slow start", lambda: next(clock)).report(1, 10)
    assert capsys.readouterr().err == "slow start: 1 of 10\n"
