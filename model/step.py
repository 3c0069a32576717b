"""What one engine step runs, as the scheduler planned it."""

from __future__ import annotations

from collections.abc import Sequence

from servecast.model.request import Request


class Step:
    """A plan. Class attributes are the defaults, all immutable, so that a step holds only what it has: most hold
    little.

    chunks: prompt chunks as (tokens cached before, tokens of the chunk). prefill_tokens: their sum.
    steady: decodes of requests that also had a token in the step before. resumed: decodes of requests that came back
    from host memory. context, longest: sum and maximum of the contexts that decodes read; windowed: likewise for each
    attention window. rows: tokens emitted. emitting: requests whose token does not follow one of the step before (first
    tokens, and those after a preemption). finishing: requests that emit their last token.
    recomputed_tokens: of prefill_tokens, those that had been computed before a preemption. swap_out_blocks,
    swap_in_blocks: to copy; swaps: whether there are any.
    """

    chunks: Sequence[tuple[int, int]] = ()
    prefill_tokens = 0
    steady = 0
    resumed = 0
    context = 0
    longest = 0
    windowed: Sequence[tuple[int, int]] = ()
    rows = 0
    emitting: Sequence[Request] = ()
    finishing: Sequence[Request] = ()
    recomputed_tokens = 0
    swap_out_blocks = 0
    swap_in_blocks = 0
    swaps = False

    def add_context(self, context: int, windows: Sequence[int]) -> None:
        """One more decode reads `context` tokens, in windowed layers no more than their window."""
        self.context += context
        self.longest = max(self.longest, context)
        before = self.windowed or [(0, 0)] * len(windows)
        cut = [min(context, window) for window in windows]
        self.windowed = [(total + c, max(most, c)) for (total, most), c in zip(before, cut, strict=True)]

    @property
    def decodes(self) -> int:
        return self.steady + self.resumed

    def __repr__(self) -> str:
        return f"Step({self.decodes} decodes, {len(self.chunks)} chunks of {self.prefill_tokens} tokens)"
