"""Whether a request that waits may start in the step that is planned: budgets of tokens and blocks, and other rules."""

from __future__ import annotations

from collections.abc import Iterable

from servecast.model.progress import Progress
from servecast.model.request import Request
from servecast.model.running_batch import RunningBatch
from servecast.model.scheduler_parameters import SchedulerParameters


class StartRules:
    """Asks `batch`, its pool and `progress`; changes none of them. limits_long: prompts over a limit of long ones let
    others pass. opening: a static batch is being put together.
    """

    def __init__(self, parameters: SchedulerParameters, batch: RunningBatch, progress: Progress) -> None:
        self.limits_long = bool(parameters.long_prefill_token_threshold) and parameters.max_num_partial_prefills > 1
        self.opening = False
        self._parameters, self._batch, self._progress = parameters, batch, progress
        self._pool, self._running = batch.pool, batch.requests
        self._token_budget, self._max_num_seqs = parameters.max_num_batched_tokens, parameters.max_num_seqs
        self._chunked, self._chunk_limit = parameters.chunked, parameters.chunk_limit
        self._watermark_blocks = int(parameters.watermark * self._pool.num_blocks)
        self._reserves_prompts, self._caching = parameters.scheduler_reserve_full_isl, parameters.enable_prefix_caching
        self._reserves_outputs, self._reserved_blocks = parameters.reserves_outputs, 0
        self._static = parameters.kind == "static"
        self._stuck: set[int] = set()
        # Whether anything but budgets may keep a request waiting.
        self._rules = self._static or parameters.backpressure

    def never_start(self, request: Request) -> None:
        """`request` waits for ever, and so do those behind it."""
        self._stuck.add(request.id)
        self._rules = True

    def too_many_long(self, request: Request) -> bool:
        threshold, limit = self._parameters.long_prefill_token_threshold, self._parameters.max_long_partial_prefills
        long = sum(other.prompt_tokens > threshold for other in self._batch.prefilling)
        return request.prompt_tokens > threshold and long >= limit

    def hits(self, request: Request, budget: int, returning: int = 0) -> int | None:
        """Cached blocks that `request` would start with now, None if it has to wait.

        budget: tokens left in the step. returning: blocks that count as free although they are not yet.
        """
        if len(self._running) >= self._max_num_seqs or (self._rules and self._held_back(request)):
            return None
        # Of a static batch those who find no budget left begin in a later step.
        if budget <= 0 and not self.opening:
            return None
        pool = self._pool
        hits = pool.hit_blocks(request) if self._caching and not request.swapped else 0
        computed = hits * pool.block_size or request.computed_tokens
        known = request.known_tokens
        wanted = known - computed
        # A recomputed sequence can outgrow the budget: it comes back in pieces even when prompts may not be cut.
        if not self._chunked and budget < wanted <= self._token_budget:
            return None
        tokens = min(wanted, budget, self._chunk_limit)
        limit = self._parameters.max_num_partial_prefills
        if limit > 1 and tokens < wanted and len(self._batch.prefilling) >= limit:
            return None
        if self._reserves_outputs:
            return hits if self._reserved_blocks + self._most_blocks(request) <= pool.num_blocks else None
        if self._reserves_prompts:
            needed = pool.most_blocks_for(known) - hits
        else:
            needed = pool.blocks_for(computed) + pool.growth(computed, tokens) - hits
        needed += pool.free_hits(request, hits) if hits else 0
        # Alone it may use the whole pool, else the watermark could keep it out for ever.
        return hits if pool.can_allocate(needed - returning, self._watermark_blocks if self._running else 0) else None

    def starts_next(self, request: Request, waiting: int, budget: int) -> bool:
        """Whether `request` would start in the next step if `waiting` others do before it, leaving `budget` tokens."""
        if len(self._running) + waiting >= self._max_num_seqs:
            return False
        return not self._running if self._static else self.hits(request, budget) is not None

    def _held_back(self, request: Request) -> bool:
        """Whether a rule besides budgets keeps `request` waiting."""
        if request.id in self._stuck:
            return True
        if self._static and not self.opening:
            return True
        fresh = request.scheduled_s is None
        return fresh and self._parameters.backpressure and self._progress.thrash.thrashing and bool(self._running)

    # Blocks that outputs will need

    def started(self, request: Request) -> None:
        if self._reserves_outputs:
            self._reserved_blocks += self._most_blocks(request)

    def finished(self, requests: Iterable[Request]) -> None:
        if self._reserves_outputs:
            self._reserved_blocks -= sum(map(self._most_blocks, requests))

    def _most_blocks(self, request: Request) -> int:
        """Blocks that `request` ever holds at once."""
        return self._pool.most_blocks_for(request.max_kv_tokens)
