"""One request on its way through a replica."""

from __future__ import annotations

from typing import Any

# Segments of a prompt from its start, as (content id, tokens): equal ids are equal tokens.
Content = tuple[tuple[int, int], ...]


class Request:
    """Mutable state of a request. Known tokens are the prompt and every output token that is scheduled or emitted;
    `computed_tokens` of them have their KV in the pool (or, when `swapped`, in host memory). Prefill, recomputation and
    swapping are all changes of `computed_tokens`; while the request is in the decode batch the batch keeps it instead.

    id: position in the workload. emitted_tokens: output tokens scheduled so far. queued_s: when the replica got it.
    scheduled_s: when it was first admitted. last_token_s: time of its last token while it is preempted, else None.
    priority: lower values go first. content: the part of its prompt that others may share, see Content. lost_tokens:
    how far it had been computed when it was preempted.
    done: an event to trigger at the end (closed-loop clients wait on it), or None.
    """

    __slots__ = (
        "computed_tokens",
        "content",
        "done",
        "emitted_tokens",
        "finish_tick",
        "first_token_s",
        "id",
        "last_token_s",
        "lost_tokens",
        "offset",
        "output_tokens",
        "preemptions",
        "priority",
        "prompt_tokens",
        "queued_s",
        "recomputed_tokens",
        "scheduled_s",
        "swapped",
    )

    def __init__(
        self, id: int, prompt_tokens: int, output_tokens: int, priority: int = 0, content: Content = ()
    ) -> None:
        self.id = id
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.priority = priority
        self.content = content
        self.queued_s = 0.0
        self.computed_tokens = 0
        self.emitted_tokens = 0
        self.swapped = False
        self.preemptions = 0
        self.recomputed_tokens = 0
        self.lost_tokens = 0
        self.scheduled_s: float | None = None
        self.first_token_s: float | None = None
        self.last_token_s: float | None = None
        self.done: Any = None
        # Kept by the decode batch while the request is in it.
        self.offset = 0
        self.finish_tick = 0

    @property
    def known_tokens(self) -> int:
        return self.prompt_tokens + self.emitted_tokens

    @property
    def uncomputed_tokens(self) -> int:
        return self.prompt_tokens + self.emitted_tokens - self.computed_tokens

    @property
    def max_kv_tokens(self) -> int:
        """KV entries at the end: the last output token is never computed."""
        return self.prompt_tokens + self.output_tokens - 1

    def __repr__(self) -> str:
        return (
            f"Request({self.id}, prompt={self.prompt_tokens}, output={self.output_tokens}, "
            f"computed={self.computed_tokens}, emitted={self.emitted_tokens})"
        )
