"""Admission control: whether a request is turned away when it arrives.

Adding a rule = a class with `refuses`, a line in `admission_rule` and a test.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

from servecast.model.request import Request

# What a rule gives as the reason of a rejection.
QUEUE_FULL, SLO = ADMISSION_REASONS = ("queue_full", "slo")

# The service rate is that of about the last so many seconds in which requests waited.
_MEMORY_S = 10.0


@dataclass(frozen=True)
class AdmissionParameters:
    """rule: "none", "max_queue" or "slo". max_queue: requests that may wait. ttft_s: the SLO's limit."""

    rule: str = "none"
    max_queue: int = 0
    ttft_s: float = math.inf


@dataclass(frozen=True)
class QueueState:
    """waiting: requests in the queue. waiting_tokens: prompt tokens to be computed before those of a newcomer, in the
    queue or in steps that have not ended. starts_next: whether the newcomer need not wait: nobody was left behind when
    the last step was planned, and there is a place, budget and room for it in the next.
    """

    waiting: int
    waiting_tokens: int
    starts_next: bool = False


class AdmissionRule(Protocol):
    """Decides at arrival, and is told what the engine serves."""

    def refuses(self, request: Request, queue: QueueState) -> str | None:
        """Why `request` is rejected, None if it is not."""
        ...

    def served(self, seconds: float, prompt_tokens: int) -> None:
        """In a step of `seconds` with requests waiting, `prompt_tokens` were computed."""


class MaxQueue:
    """Turns away who would have to wait and finds `limit` requests waiting: with 0 nobody waits for longer than the
    next step.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit

    def refuses(self, request: Request, queue: QueueState) -> str | None:  # noqa: ARG002  # all requests alike
        return QUEUE_FULL if queue.waiting >= self._limit and not queue.starts_next else None

    def served(self, seconds: float, prompt_tokens: int) -> None: ...


class PredictedTtft:
    """Turns away whose TTFT would exceed `ttft_s`: the prompt tokens ahead of it and its own, at the rate at which
    prompts were served while requests waited.

    first_rate: prompt tokens/s to go by before there is anything to measure.
    """

    def __init__(self, ttft_s: float, first_rate: float) -> None:
        self._ttft_s = ttft_s
        self._seconds = 0.1
        self._tokens = first_rate * self._seconds

    def refuses(self, request: Request, queue: QueueState) -> str | None:
        return SLO if self.predicted_s(request, queue) > self._ttft_s else None

    def predicted_s(self, request: Request, queue: QueueState) -> float:
        """TTFT in seconds that `request` would see."""
        return (queue.waiting_tokens + request.prompt_tokens) * self._seconds / max(self._tokens, 1.0)

    def served(self, seconds: float, prompt_tokens: int) -> None:
        # An average that forgets evenly: two short steps count like a long one.
        kept = math.exp(-seconds / _MEMORY_S)
        self._seconds = self._seconds * kept + _MEMORY_S * (1 - kept)
        self._tokens = self._tokens * kept + prompt_tokens


def admission_rule(parameters: AdmissionParameters, first_rate: float) -> AdmissionRule | None:
    """The rule of `parameters`, None for none."""
    if parameters.rule == "max_queue":
        return MaxQueue(parameters.max_queue)
    if parameters.rule == "slo":
        return PredictedTtft(parameters.ttft_s, first_rate)
    return None
