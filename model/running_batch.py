"""The requests that run: who decodes, whose prompt is under way, what a step computes and which blocks that takes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from servecast.hardware.errors import InvariantError
from servecast.model.block_pool import BlockPool
from servecast.model.decode_batch import DecodeBatch
from servecast.model.lanes import Lanes
from servecast.model.request import Request
from servecast.model.scheduler_parameters import SchedulerParameters
from servecast.model.step import Step
from servecast.model.windowed_batch import WindowedDecodeBatch


class RunningBatch:
    """Advances its requests; who joins and who has to leave is decided elsewhere (scheduler.py).

    requests: by id, in the order of admission; each decodes (`decodes`) or has a prompt under way (`prefilling`), but
    for those whose last token is planned. windows: the model's attention windows, tokens. `decodes` is the lane of the
    next plan, of `lanes`.
    """

    def __init__(
        self, parameters: SchedulerParameters, pool: BlockPool, windows: Sequence[int], num_lanes: int = 1
    ) -> None:
        self.pool = pool
        self.requests: dict[int, Request] = {}
        self.prefilling: list[Request] = []
        self.lanes = Lanes(
            [WindowedDecodeBatch(windows, pool) if windows else DecodeBatch(pool.block_size) for _ in range(num_lanes)]
        )
        self.decodes = self.lanes.current
        self._caching = parameters.enable_prefix_caching
        self._token_budget, self._chunk_limit = parameters.max_num_batched_tokens, parameters.chunk_limit
        # Prompts of a static batch emit their first tokens together.
        self._together = parameters.kind == "static"

    def turn_from(self, busy: Collection[int]) -> DecodeBatch:
        """Let `decodes` be a lane that is not `busy`."""
        self.decodes = self.lanes.turn_from(busy)
        return self.decodes

    # What a step computes

    def plan_decodes(self, step: Step) -> int:
        """Let everybody in the decode batch have a token; returns how many that are."""
        decodes = self.decodes
        size = decodes.size
        if size:
            step.steady = step.rows = size
            step.context, step.longest = decodes.contexts()
            if decodes.windowed:
                step.windowed = decodes.windowed_sums()
            self.pool.extend_decodes(decodes.blocks_needed())
            step.finishing = decodes.advance(1)
        return size

    def plan_prefilling(self, step: Step, budget: int) -> int:
        """Go on with prompts that are under way; returns the tokens used. Decodes have had theirs before."""
        requests, self.prefilling = self.prefilling, []
        left = budget
        for request in requests:
            tokens = self.next_chunk(request, left)
            if tokens:
                self.pool.extend(request, self.pool.growth(request.computed_tokens, tokens))
            self._plan_chunk(step, request, tokens)
            left -= tokens
        return budget - left

    def next_chunk(self, request: Request, budget: int) -> int:
        """Tokens of `request` that a step with `budget` tokens left computes."""
        return min(request.uncomputed_tokens, budget, self._chunk_limit)

    def start(self, step: Step, request: Request, hits: int, budget: int) -> int:
        """`request` joins, with its first `hits` blocks cached; returns the tokens that it computes in `step`."""
        pool = self.pool
        self.requests[request.id] = request
        if hits:
            request.computed_tokens = hits * pool.block_size
        before, tokens = request.computed_tokens, self.next_chunk(request, budget)
        pool.take(request, hits, pool.blocks_for(before) + pool.growth(before, tokens) - hits)
        if request.emitted_tokens and request.uncomputed_tokens == 1:
            self._decode_once(step, request)
        else:
            self._plan_chunk(step, request, tokens)
        return tokens

    def _plan_chunk(self, step: Step, request: Request, tokens: int) -> None:
        """Compute `tokens` more tokens of `request`, for which it has blocks, in `step`. It emits a token when that was
        the last known one.
        """
        if tokens:
            before, after = request.computed_tokens, request.computed_tokens + tokens
            step.chunks = [*step.chunks, (before, tokens)]
            step.prefill_tokens += tokens
            if request.lost_tokens > before:
                again = min(after, request.lost_tokens) - before
                request.recomputed_tokens += again
                step.recomputed_tokens += again
            request.computed_tokens = after
            self.pool.outgrow(before, tokens)
            if self._caching:
                self.pool.publish(request, after)
        if request.uncomputed_tokens or self._together:
            self.prefilling.append(request)
        else:
            step.rows += 1
            self._emit(step, request)

    def emit_together(self, step: Step) -> None:
        """Let a static batch have its first tokens if all of it is computed."""
        if not any(request.uncomputed_tokens for request in self.prefilling):
            requests, self.prefilling = self.prefilling, []
            for request in requests:
                step.rows += 1
                self._emit(step, request)

    def _decode_once(self, step: Step, request: Request) -> None:
        """The first decode of a request that comes back with its KV; from the next step on the batch has it."""
        request.computed_tokens += 1
        step.add_context(request.computed_tokens, [windowed.window for windowed in self.decodes.windowed])
        step.resumed += 1
        step.rows += 1
        self._emit(step, request)

    def _emit(self, step: Step, request: Request) -> None:
        request.emitted_tokens += 1
        step.emitting = [*step.emitting, request]
        if request.emitted_tokens == request.output_tokens:
            step.finishing = [*step.finishing, request]
        else:
            self.decodes.add(request)

    # Blocks

    def blocks_needed(self) -> int:
        """Free blocks that the next step of all of them takes."""
        blocks = self.decodes.blocks_needed()
        if self.prefilling:
            left = self._token_budget - self.decodes.size
            for request in self.prefilling:
                tokens = self.next_chunk(request, left)
                blocks += self.pool.growth(request.computed_tokens, tokens)
                left -= tokens
        return blocks

    def held_blocks(self, request: Request) -> int:
        lane = self.lanes.batch_of(request)
        return self.pool.blocks_for(request.computed_tokens if lane is None else request.offset + lane.tick)

    # Leaving

    def newest_first(self) -> Iterator[Request]:
        """All but those about to finish, whose blocks come free at the end of the running step anyway, and those of
        other lanes.
        """
        for request in reversed(self.requests.values()):
            if request.emitted_tokens < request.output_tokens and self.lanes.batch_of(request) in (None, self.decodes):
                yield request

    def remove(self, request: Request) -> bool:
        """Take `request` out before it is done, without its blocks; whether it was decoding."""
        del self.requests[request.id]
        decoding = request.id in self.decodes
        if decoding:
            self.decodes.remove(request)
        else:
            self.prefilling.remove(request)
        return decoding

    def release(self, finished: Sequence[Request]) -> Sequence[Request]:
        """Let `finished` requests go, with their blocks. Returns them."""
        for request in finished:
            del self.requests[request.id]
            self.pool.release(request, self.pool.blocks_for(request.computed_tokens))
        return finished

    def check(self) -> None:
        """Raise InvariantError if a block is lost or shared, or a sum is off."""
        self.lanes.check(self.requests.values())
        self.pool.check(sum(map(self.held_blocks, self.requests.values())))
        strangers = [request.id for request in self.prefilling if request.id not in self.requests]
        if strangers:
            raise InvariantError(f"requests {strangers} have a prompt under way and do not run")
