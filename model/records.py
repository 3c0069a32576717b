"""Flat records of a simulation: one row a request, one row a step (or a run of equal steps). Statistics come
afterwards.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from struct import Struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from servecast.model.request import Request

UNFINISHED, COMPLETED, REJECTED = 0, 1, 2
STATES = ("unfinished", "completed", "rejected")

# One row of `StepRows`. A row with count > 1 is a run of decode steps: step i (from 0) lasts
# duration_s + i * slope_s. gap_s: time from the end of the step before (of the same replica) to the end of the first.
# used_blocks: of the KV pool when the (last) step runs. waiting: requests in the queue.
# recompute_ratio: recomputed over new tokens of the last 500 steps before this one.
STEP_COLUMNS = (
    "replica",
    "start_s",
    "duration_s",
    "slope_s",
    "count",
    "gap_s",
    "decodes",
    "steady_decodes",
    "chunks",
    "prefill_tokens",
    "waiting",
    "running",
    "used_blocks",
    "recompute_ratio",
)


class RequestRows:
    """One row a request, by id, filled in as requests end. Times in seconds of simulated time, NaN for none."""

    def __init__(self, size: int, progress: Callable[[int, int], None] | None = None) -> None:
        nothing = array("d", [float("nan")]) * size
        self.arrival_s = array("d", nothing)
        self.queued_s = array("d", nothing)
        self.scheduled_s = array("d", nothing)
        self.first_token_s = array("d", nothing)
        self.finish_s = array("d", nothing)
        self.replica = array("i", [-1]) * size
        self.preemptions = array("i", [0]) * size
        self.recomputed_tokens = array("q", [0]) * size
        self.state = array("b", [UNFINISHED]) * size
        self.reasons: dict[int, str] = {}
        self.ended = 0
        self._progress = progress
        self._report_every = self._report_at = max(1, size // 200)

    def finish(self, request: Request, finish_s: float, replica: int) -> None:
        self._close(request, replica)
        self.first_token_s[request.id] = request.first_token_s  # type: ignore[assignment]  # set before any finish
        self.finish_s[request.id] = finish_s
        self.state[request.id] = COMPLETED
        self.ended += 1
        if self.ended == self._report_at:
            self._report()

    def reject(self, request: Request, reason: str, replica: int) -> None:
        self.queued_s[request.id] = request.queued_s
        self.replica[request.id] = replica
        self.reasons[request.id] = reason
        self.state[request.id] = REJECTED
        self.ended += 1
        if self.ended == self._report_at:
            self._report()

    def leave(self, request: Request, replica: int) -> None:
        """`request` is still in `replica` when the simulation ends."""
        self._close(request, replica)
        if request.first_token_s is not None:
            self.first_token_s[request.id] = request.first_token_s

    def _close(self, request: Request, replica: int) -> None:
        id = request.id
        self.queued_s[id] = request.queued_s
        if request.scheduled_s is not None:
            self.scheduled_s[id] = request.scheduled_s
        self.replica[id] = replica
        self.preemptions[id] = request.preemptions
        self.recomputed_tokens[id] = request.recomputed_tokens

    def _report(self) -> None:
        self._report_at += self._report_every
        if self._progress is not None:
            self._progress(self.ended, len(self.state))

    def columns(self) -> dict[str, NDArray[Any]]:
        """All columns as arrays, in order of id."""
        names = (
            "arrival_s",
            "queued_s",
            "scheduled_s",
            "first_token_s",
            "finish_s",
            "replica",
            "preemptions",
        )
        return {name: np.asarray(getattr(self, name)) for name in (*names, "recomputed_tokens", "state")}


class StepRows:
    """Rows of STEP_COLUMNS, packed as they come: a list of tuples would take three times the memory."""

    def __init__(self) -> None:
        self._packed = bytearray()
        # A row is added by add(pack(...)), with one value for each of STEP_COLUMNS: a method around the two would cost
        # as much as both.
        self.pack = Struct(f"{len(STEP_COLUMNS)}d").pack
        self.add = self._packed.extend

    def columns(self) -> dict[str, NDArray[np.float64]]:
        """Each column as an array, in order of the steps' ends."""
        table = np.frombuffer(self._packed, dtype=np.float64).reshape(-1, len(STEP_COLUMNS))
        return {name: table[:, i] for i, name in enumerate(STEP_COLUMNS)}
