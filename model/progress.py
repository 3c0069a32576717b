"""Whether a replica gets anywhere: thrashing, and requests that are preempted again and again."""

from __future__ import annotations

from servecast.model.request import Request
from servecast.model.thrash import WINDOW_STEPS, ThrashDetector

# A request that is preempted so often with no new token in between makes no progress any more.
STALLED_PREEMPTIONS = 10


class Progress:
    """thrash: recomputed against new tokens. livelocked: ids of requests that stalled, in order (values mean nothing).
    watching: whether steps must be noted; before the first preemption there is nothing to see. hopeless: nobody has had
    a token over so many preemptions that nobody ever will.
    """

    def __init__(self, max_num_seqs: int) -> None:
        self.thrash = ThrashDetector()
        self.livelocked: dict[int, None] = {}
        self.watching = False
        self.hopeless = False
        self._hopeless_preemptions = STALLED_PREEMPTIONS * (max_num_seqs + 1)
        self._preemptions_without_token = 0
        # Of preempted requests: tokens emitted by the last preemption, and preemptions since the last of them.
        self._stalls: dict[int, tuple[int, int]] = {}

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
        emitted, stalls = self._stalls.get(request.id, (-1, 0))
        stalls = stalls + 1 if request.emitted_tokens == emitted else 1
        self._stalls[request.id] = (request.emitted_tokens, stalls)
        if stalls >= STALLED_PREEMPTIONS:
            self.livelocked[request.id] = None
        self._preemptions_without_token += 1
        self.hopeless = self._preemptions_without_token > self._hopeless_preemptions
