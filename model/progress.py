"""Whether a replica gets anywhere: thrashing, and requests that are preempted again and again."""

from __future__ import annotations

from collections.abc import Mapping

from servecast.model.request import Request
from servecast.model.thrash import WINDOW_STEPS, ThrashDetector

# A request that is preempted so often with no new token in between makes no progress any more.
STALLED_PREEMPTIONS = 10


class Progress:
    """thrash: recomputed against new tokens. watching: whether steps must be noted; before the first preemption there
    is nothing to see. hopeless: nobody has had a token over so many preemptions that nobody ever will.

    stalled: ids of requests that were preempted STALLED_PREEMPTIONS times in a row without a new token, in order.
    Who is let in again at once only waits for those before it to finish, and that ends. Not so if newcomers are let in
    instead each time: stalls of which that is true of as many make a request one of `livelocked`. (Ids are keys of
    dicts, whose values mean nothing.)
    """

    def __init__(self, max_num_seqs: int) -> None:
        self.thrash = ThrashDetector()
        self.stalled: dict[int, None] = {}
        self.watching = False
        self.hopeless = False
        # Requests admitted for the first time so far.
        self.newcomers = 0
        self._overtaken: dict[int, None] = {}
        self._hopeless_preemptions = STALLED_PREEMPTIONS * (max_num_seqs + 1)
        self._preemptions_without_token = 0
        self._stalls: dict[int, _Stall] = {}

    @property
    def livelocked(self) -> Mapping[int, None]:
        """Ids; where nobody gets anywhere any more, all who stalled."""
        return self.stalled if self.hopeless else self._overtaken

    def note_steps(self, now_s: float, steps: int, new_tokens: int, recomputed_tokens: int) -> None:
        """`steps` equal steps ended at `now_s`, each with so many new and recomputed tokens."""
        self.thrash.add(now_s, steps, new_tokens, recomputed_tokens)
        if new_tokens:
            self._preemptions_without_token = 0

    def note_preemption(self, request: Request, steps: int, decodes: int) -> None:
        """`request` is preempted; its emitted tokens are up to date. There were `steps` steps with decodes before, and
        `decodes` requests decode now: what the window begins with.
        """
        if not self.watching:
            self.watching = True
            self.thrash.add(0.0, min(steps, WINDOW_STEPS), decodes, 0)
        request.preemptions += 1
        self._note_stall(request)
        self._preemptions_without_token += 1
        self.hopeless = self._preemptions_without_token > self._hopeless_preemptions

    def _note_stall(self, request: Request) -> None:
        stall = self._stalls.get(request.id)
        if stall is None or stall.emitted_tokens != request.emitted_tokens:
            stall = self._stalls[request.id] = _Stall(request.emitted_tokens, self.newcomers)
        stall.preemptions += 1
        stall.overtaken += stall.newcomers != self.newcomers
        stall.newcomers = self.newcomers
        if stall.preemptions >= STALLED_PREEMPTIONS:
            self.stalled[request.id] = None
        if stall.overtaken >= STALLED_PREEMPTIONS:
            self._overtaken[request.id] = None


class _Stall:
    """A request's preemptions since its last token. overtaken: before how many of them newcomers were admitted in
    between.
    """

    __slots__ = ("emitted_tokens", "newcomers", "overtaken", "preemptions")

    def __init__(self, emitted_tokens: int, newcomers: int) -> None:
        self.emitted_tokens = emitted_tokens
        self.newcomers = newcomers
        self.preemptions = 0
        self.overtaken = 0
