"""Thrash detection: tokens computed again over tokens newly generated, in a sliding window of steps."""

from __future__ import annotations

from collections import deque

# From this ratio on more than a fifth of the output's work is done twice; it ends at half of it.
THRASH_RATIO = 0.20
WINDOW_STEPS = 500


class ThrashDetector:
    """ratio: recomputed over new tokens of the last WINDOW_STEPS steps. events: (time in s, ratio) at which it rose
    above THRASH_RATIO or fell below half of it, in turn.
    """

    def __init__(self) -> None:
        self.ratio = 0.0
        self.thrashing = False
        self.events: list[tuple[float, float]] = []
        # (steps, new tokens a step, recomputed tokens a step), oldest first.
        self._window: deque[tuple[int, int, int]] = deque()
        self._steps = 0
        self._new = 0
        self._recomputed = 0

    def add(self, now_s: float, steps: int, new_tokens: int, recomputed_tokens: int) -> None:
        """`steps` equal steps ended at `now_s`, each with so many new and recomputed tokens."""
        self._window.append((steps, new_tokens, recomputed_tokens))
        self._steps += steps
        self._new += steps * new_tokens
        self._recomputed += steps * recomputed_tokens
        while self._steps > WINDOW_STEPS:
            self._forget(self._steps - WINDOW_STEPS)
        self.ratio = self._recomputed / self._new if self._new else float(self._recomputed > 0)
        limit = THRASH_RATIO / 2 if self.thrashing else THRASH_RATIO
        if (self.ratio > limit) != self.thrashing:
            self.thrashing = not self.thrashing
            self.events.append((now_s, self.ratio))

    def _forget(self, most: int) -> None:
        """Let up to `most` of the oldest steps go."""
        steps, new, recomputed = self._window.popleft()
        gone = min(steps, most)
        self._steps -= gone
        self._new -= gone * new
        self._recomputed -= gone * recomputed
        if gone < steps:
            self._window.appendleft((steps - gone, new, recomputed))
