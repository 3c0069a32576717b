"""Whether a replica gets anywhere: thrash ratio from the first preemption on, livelocks, hopelessness."""

from __future__ import annotations

import pytest

from servecast.model.progress import STALLED_PREEMPTIONS, Progress
from servecast.model.request import Request


def preempt(progress: Progress, request: Request) -> None:
    """After 20 steps of 5 decodes."""
    progress.note_preemption(request, steps=20, decodes=5)


def test_the_window_begins_with_the_steps_before_the_first_preemption() -> None:
    progress = Progress(max_num_seqs=4)
    assert not progress.watching
    preempt(progress, Request(0, 50, 10))
    assert progress.watching
    progress.note_steps(3.0, 1, 0, 20)
    assert progress.thrash.ratio == pytest.approx(20 / 100)
    assert not progress.thrash.thrashing
    progress.note_steps(4.0, 1, 0, 1)
    assert progress.thrash.events == [(4.0, pytest.approx(0.21))]


def test_a_request_preempted_ten_times_without_a_token_is_stalled() -> None:
    progress, stuck, fine = Progress(max_num_seqs=4), Request(7, 50, 100), Request(8, 50, 100)
    for _ in range(STALLED_PREEMPTIONS):
        assert not progress.stalled
        preempt(progress, stuck)
        fine.emitted_tokens += 1
        preempt(progress, fine)
        progress.note_steps(1.0, 1, 1, 0)
    assert list(progress.stalled) == [7]
    assert not progress.livelocked
    assert (stuck.preemptions, fine.preemptions) == (10, 10)


def test_it_is_livelocked_if_newcomers_are_let_in_each_time() -> None:
    progress, stuck = Progress(max_num_seqs=4), Request(7, 50, 100)
    preempt(progress, stuck)
    for _ in range(STALLED_PREEMPTIONS):
        assert not progress.livelocked
        progress.newcomers += 2
        preempt(progress, stuck)
        progress.note_steps(1.0, 1, 1, 0)
    assert list(progress.livelocked) == [7]


def test_a_token_in_between_starts_the_count_again() -> None:
    progress, request = Progress(max_num_seqs=4), Request(7, 50, 100)
    for _ in range(3):
        for _ in range(STALLED_PREEMPTIONS - 1):
            preempt(progress, request)
        request.emitted_tokens += 1
    assert not progress.stalled


def test_it_is_hopeless_when_nobody_has_a_token_over_many_preemptions() -> None:
    """Two places: over 10 preemptions for each of them and one more."""
    progress, request = Progress(max_num_seqs=2), Request(7, 50, 100)
    for _ in range(30):
        preempt(progress, request)
        progress.note_steps(1.0, 1, 0, 50)
    assert not progress.hopeless
    preempt(progress, request)
    assert progress.hopeless
    assert list(progress.livelocked) == [7]


def test_any_new_token_is_hope() -> None:
    progress, request = Progress(max_num_seqs=2), Request(7, 50, 100)
    for _ in range(100):
        preempt(progress, request)
        progress.note_steps(1.0, 1, 1, 50)
    assert not progress.hopeless
    assert list(progress.stalled) == [7]
