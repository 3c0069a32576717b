"""Whether a replica gets anywhere: thrashing, and requests that are preempted again and again."""

from __future__ import annotations

from servecast.model.request import Request
from servecast.model.thrash import ThrashDetector

# A request that is preempted so often with no new token in between makes no progress any more.
STALLED_PREEMPTIONS = 10


class Progress:
    """thrash: recomputed against new tokens. livelocked: ids of requests that stalled, in order (values mean
    nothing).
    """

    def __init__(self, max_num_seqs: int) -> None:
        self.thrash = ThrashDetector()
        self.livelocked: dict[int, None] = {}
        self._hopeless_preemptions = STALLED_PREEMPTIONS * (max_num_seqs + 1)
        self._preempted_ever = False
        self._steps_before = 0
        self._tokens_before = 0
        self._preemptions_without_token = 0

    @property
    def hopeless(self) -> bool:
        """Whether nobody has had a token over so many preemptions that nobody ever will."""
        return self._preemptions_without_token > self._hopeless_preemptions

    def note_steps(self, now_s: float, steps: int, new_tokens: int, recomputed_tokens: int) -> None:
        """`steps` equal steps ended at `now_s`, each with so many new and recomputed tokens."""
        if self._preempted_ever:
            self.thrash.add(now_s, steps, new_tokens, recomputed_tokens)
            if new_tokens:
                self._preemptions_without_token = 0
        else:
            # Nothing can be recomputed yet: two sums do for the window.
            self._steps_before += steps
            self._tokens_before += steps * new_tokens

    def note_preemption(self, request: Request) -> None:
        """`request` is preempted; its emitted tokens are up to date."""
        request.preemptions += 1
        request.stalls = request.stalls + 1 if request.emitted_tokens == request.emitted_before else 0
        request.emitted_before = request.emitted_tokens
        if request.stalls >= STALLED_PREEMPTIONS:
            self.livelocked[request.id] = None
        self._preemptions_without_token += 1
        if not self._preempted_ever:
            self._preempted_ever = True
            if self._steps_before:
                self.thrash.add(0.0, self._steps_before, self._tokens_before // self._steps_before, 0)
