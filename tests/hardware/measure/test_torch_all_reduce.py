"""The processes of an all-reduce answer every question once, whatever happens to them. No GPU, no NCCL."""

from __future__ import annotations

import queue
from typing import Any

import pytest

from servecast.hardware.measure import torch_all_reduce


class _Timer:
    def __init__(self, *_: Any) -> None:
        self.closed = False

    def run_s(self, bytes_: int) -> float:
        if bytes_ > 100:
            raise RuntimeError("out of memory\nlong story")
        return bytes_ / 2

    def close(self) -> None:
        self.closed = True


def answers(monkeypatch: pytest.MonkeyPatch, timer: Any, asked: list[int]) -> list[Any]:
    monkeypatch.setattr(torch_all_reduce, "_Timer", timer)
    questions, found = queue.SimpleQueue[int | None](), queue.SimpleQueue[Any]()
    for question in (*asked, None):
        questions.put(question)
    torch_all_reduce._work(0, 2, 1234, questions, found)
    return [found.get_nowait() for _ in range(found.qsize())]


def test_seconds_or_the_reason_for_each_question(monkeypatch: pytest.MonkeyPatch) -> None:
    assert answers(monkeypatch, _Timer, [10, 1000, 20]) == [5.0, "out of memory", 10.0]


def test_a_group_that_does_not_start_says_so_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any) -> None:
        raise RuntimeError("no NCCL here")

    assert answers(monkeypatch, broken, [10, 20]) == ["no group of 2 GPUs: no NCCL here"] * 2
