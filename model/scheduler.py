"""Continuous batching: which requests run in the next step, and for how many tokens each.

There is no prefill or decode phase, only computed tokens that catch up with known tokens. The plan of a step advances
the requests at once; `complete` stamps times and frees blocks when the step has ended. So a step can be planned while
the one before still runs (asynchronous scheduling), and the same code serves both.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from servecast.hardware.errors import InvariantError
from servecast.model.block_pool import BlockPool
from servecast.model.decode_batch import DecodeBatch
from servecast.model.request import Request
from servecast.model.step import Step
from servecast.model.waiting_queue import FcfsQueue


@dataclass(frozen=True)
class SchedulerParameters:
    """vLLM's settings under vLLM's names. swap_space_gib: host memory for preempted requests, for each GPU.

    watermark: share of the pool that an admission must leave free. scheduler_reserve_full_isl: admit a prompt only when
    blocks for all of it are free, not just for its first chunk.
    """

    max_num_batched_tokens: int = 8192
    max_num_seqs: int = 256
    enable_chunked_prefill: bool = True
    preemption: Literal["recompute", "swap"] = "recompute"
    swap_space_gib: float = 4.0
    watermark: float = 0.0
    scheduler_reserve_full_isl: bool = False
    on_unschedulable: Literal["reject", "wait"] = "reject"


class Scheduler:
    """Plans steps over a pool of KV blocks. Pure: no clock of its own, times come in as arguments (seconds).

    max_model_len: most tokens of a request. swap_blocks: blocks of host memory. windows: the model's attention windows.
    gaps_s: times between two tokens of a request that had no token in some step between, for the ITL.
    """

    def __init__(
        self,
        parameters: SchedulerParameters,
        pool: BlockPool,
        *,
        max_model_len: int,
        swap_blocks: int = 0,
        windows: Sequence[int] = (),
    ) -> None:
        self.parameters = parameters
        self.pool = pool
        self.max_model_len = max_model_len
        self.swap_blocks = swap_blocks
        self.waiting = FcfsQueue()
        # Running requests by id in the order of admission: the last one is the next victim.
        self.running: dict[int, Request] = {}
        self.decodes = DecodeBatch(pool.block_size, tuple(windows))
        self.gaps_s: list[float] = []
        self.swap_fallbacks = 0
        self.free_swap_blocks = swap_blocks
        self._prefilling: list[Request] = []
        self._stuck: set[int] = set()
        # A request of so many tokens in all meets every limit.
        whole_prompt = self.max_model_len if parameters.enable_chunked_prefill else parameters.max_num_batched_tokens
        self._always_fits = min(max_model_len, whole_prompt, pool.num_blocks * pool.block_size)
        self._token_budget = parameters.max_num_batched_tokens
        self._max_num_seqs = parameters.max_num_seqs
        self._watermark_blocks = int(parameters.watermark * pool.num_blocks)
        self._unfinished_steps = 0
        self._finishing = 0
        self._interrupted: list[Request] = []

    # Arrivals

    def add(self, request: Request) -> str | None:
        """Queue `request`. Returns why it was rejected, or None if it was not."""
        reason = self._never_runs(request)
        if reason is not None:
            if self.parameters.on_unschedulable == "reject":
                return reason
            self._stuck.add(request.id)
        self.waiting.push(request)
        return None

    def _never_runs(self, request: Request) -> str | None:
        parameters = self.parameters
        tokens = request.prompt_tokens + request.output_tokens
        if tokens <= self._always_fits:
            return None
        if tokens > self.max_model_len:
            return "over_max_model_len"
        if not parameters.enable_chunked_prefill and request.prompt_tokens > parameters.max_num_batched_tokens:
            return "prompt_over_token_budget"
        if self.pool.blocks_for(request.max_kv_tokens) > self.pool.num_blocks:
            return "over_kv_pool"
        return None

    # Planning

    def schedule(self, now_s: float) -> Step | None:
        """Plan the next step, or return None if nothing can run. Running requests come first, then admissions."""
        step = Step()
        preempted = self._make_room(step, now_s)
        budget = self._token_budget - self._plan_decodes(step)
        if self._prefilling:
            budget -= self._plan_prefilling(step, budget)
        # Who was just preempted stands in front; admitting in the same step would undo it.
        if self.waiting and not preempted:
            self._admit(step, budget, now_s)
        return self._planned(step) if step.rows or step.chunks else None

    def plan_steady(self) -> Step:
        """Plan one of the steps that `steady_steps` foresaw: everybody who decodes does, nobody joins."""
        step = Step()
        self._plan_decodes(step)
        return self._planned(step)

    def _planned(self, step: Step) -> Step:
        self._unfinished_steps += 1
        self._finishing += len(step.finishing)
        return step

    def _plan_decodes(self, step: Step) -> int:
        """Let everybody in the decode batch have a token; returns how many that are."""
        decodes = self.decodes
        size = decodes.size
        if size:
            step.steady = step.rows = size
            step.context, step.longest = decodes.contexts()
            if decodes.windowed:
                step.windowed = decodes.windowed_sums()
            self.pool.free_blocks -= decodes.blocks_needed()
            step.finishing = decodes.advance(1)
        return size

    def _plan_prefilling(self, step: Step, budget: int) -> int:
        """Go on with prompts that are under way; returns the tokens used."""
        requests, self._prefilling = self._prefilling, []
        left = budget
        for request in requests:
            tokens = min(request.uncomputed_tokens, left)
            self._plan_chunk(step, request, tokens)
            left -= tokens
        return budget - left

    def _plan_chunk(self, step: Step, request: Request, tokens: int) -> None:
        """Compute `tokens` more tokens of `request` in `step`; it emits a token when that was the last known one."""
        if tokens:
            self.pool.free_blocks -= self.pool.growth(request.computed_tokens, tokens)
            step.chunks = [*step.chunks, (request.computed_tokens, tokens)]
            step.prefill_tokens += tokens
            request.computed_tokens += tokens
        if request.uncomputed_tokens:
            self._prefilling.append(request)
        else:
            step.rows += 1
            self._emit(step, request)

    def _emit(self, step: Step, request: Request) -> None:
        request.emitted_tokens += 1
        step.emitting = [*step.emitting, request]
        if request.emitted_tokens == request.output_tokens:
            step.finishing = [*step.finishing, request]
        else:
            self.decodes.add(request)

    # Admission

    def _admit(self, step: Step, budget: int, now_s: float) -> None:
        while self.waiting:
            request = self.waiting.peek()
            tokens = self._admissible_tokens(request, budget)
            if not tokens:
                return
            self.waiting.take()
            budget -= tokens
            self.running[request.id] = request
            if request.scheduled_s is None:
                request.scheduled_s = now_s
            if request.swapped:
                self._swap_in(step, request, tokens)
            else:
                self._plan_chunk(step, request, tokens)

    def _admissible_tokens(self, request: Request, budget: int) -> int:
        """Tokens that `request` may compute in a step with `budget` left; 0 if it has to wait."""
        if budget <= 0 or len(self.running) >= self._max_num_seqs or request.id in self._stuck:
            return 0
        wanted = request.uncomputed_tokens
        tokens = wanted
        if wanted > budget:
            # A recomputed sequence can outgrow the budget: it comes back in pieces even when prompts may not be cut.
            if not self.parameters.enable_chunked_prefill and wanted <= self._token_budget:
                return 0
            tokens = budget
        held = request.known_tokens if self.parameters.scheduler_reserve_full_isl else request.computed_tokens + tokens
        # Alone it may use the whole pool, else the watermark could keep it out for ever.
        reserve = self._watermark_blocks if self.running else 0
        return tokens if self.pool.can_allocate(self.pool.blocks_for(held), reserve) else 0

    def _swap_in(self, step: Step, request: Request, tokens: int) -> None:
        blocks = self.pool.blocks_for(request.computed_tokens)
        self.pool.free_blocks -= blocks
        self.free_swap_blocks += blocks
        step.swap_in_blocks += blocks
        request.swapped = False
        if request.emitted_tokens and request.uncomputed_tokens == 1:
            self._decode_once(step, request)
        else:
            self._plan_chunk(step, request, tokens)

    def _decode_once(self, step: Step, request: Request) -> None:
        """The first decode of a request that comes back from host memory; from the next step on the batch has it."""
        self.pool.free_blocks -= self.pool.growth(request.computed_tokens, 1)
        request.computed_tokens += 1
        context = request.computed_tokens
        step.context += context
        step.longest = max(step.longest, context)
        if self.decodes.windowed:
            windows = [windowed.window for windowed in self.decodes.windowed]
            before = step.windowed or [(0, 0)] * len(windows)
            cut = [min(context, window) for window in windows]
            step.windowed = [(total + c, max(most, c)) for (total, most), c in zip(before, cut, strict=True)]
        step.resumed += 1
        step.rows += 1
        self._emit(step, request)

    # Preemption

    def _make_room(self, step: Step, now_s: float) -> bool:
        """Preempt from the last admitted on until the running requests' next blocks are free; whether any was.

        Going through the running requests in order and preempting the last one at each shortage ends with the same
        set: the fewest last-admitted ones whose blocks cover what the others need.
        """
        if self._blocks_needed() <= self.pool.free_blocks:
            return False
        while self._blocks_needed() > self.pool.free_blocks:
            self._preempt(step, self._victim(), now_s)
        return True

    def _blocks_needed(self) -> int:
        blocks = self.decodes.blocks_needed()
        if self._prefilling:
            left = self._token_budget - self.decodes.size
            for request in self._prefilling:
                tokens = min(request.uncomputed_tokens, left)
                blocks += self.pool.growth(request.computed_tokens, tokens)
                left -= tokens
        return blocks

    def _victim(self) -> Request:
        """The last admitted that is not about to finish: its blocks come free at the end of the running step anyway."""
        for request in reversed(self.running.values()):
            if request.emitted_tokens < request.output_tokens:
                return request
        raise InvariantError("blocks are needed but nobody runs")

    def _preempt(self, step: Step, request: Request, now_s: float) -> None:
        del self.running[request.id]
        if request in self._prefilling:
            self._prefilling.remove(request)
        else:
            self.decodes.remove(request)
            if self._unfinished_steps:
                self._interrupted.append(request)
            else:
                request.last_token_s = now_s
        request.preemptions += 1
        blocks = self.pool.blocks_for(request.computed_tokens)
        self.pool.free_blocks += blocks
        if self.parameters.preemption == "swap" and blocks <= self.free_swap_blocks:
            self.free_swap_blocks -= blocks
            step.swap_out_blocks += blocks
            request.swapped = True
        else:
            self.swap_fallbacks += self.parameters.preemption == "swap"
            request.recomputed_tokens += request.computed_tokens
            request.computed_tokens = 0
        self.waiting.push_front(request)

    # The end of a step

    def complete(self, step: Step, now_s: float) -> Sequence[Request]:
        """`step` ended at `now_s`: tokens go out, finished requests leave. Returns the finished."""
        self._unfinished_steps -= 1
        for request in step.emitting:
            if request.first_token_s is None:
                request.first_token_s = now_s
            elif request.last_token_s is not None:
                self.gaps_s.append(now_s - request.last_token_s)
                request.last_token_s = None
        if self._interrupted:
            for request in self._interrupted:
                request.last_token_s = now_s
            self._interrupted = []
        if step.finishing:
            self._finishing -= len(step.finishing)
            self.release(step.finishing)
        return step.finishing

    def release(self, finished: Sequence[Request]) -> Sequence[Request]:
        """Let `finished` requests go, with their blocks. Returns them."""
        for request in finished:
            del self.running[request.id]
            self.pool.free_blocks += self.pool.blocks_for(request.computed_tokens)
        return finished

    # Coasting

    def steady_steps(self, ahead: int) -> int:
        """How many steps after the planned ones are certain to be decodes of the batch as it is, if nothing arrives.

        The last of them may be one in which somebody finishes. 0 if the next plan could be anything else.
        ahead: steps that are planned before the last of them ends (0 or 1); those must not need a preemption either.
        """
        decodes = self.decodes
        if not decodes.size or self._prefilling:
            return 0
        if self.waiting:
            budget = self._token_budget - decodes.size
            if self._finishing or self._admissible_tokens(self.waiting.peek(), budget):
                return 0
        limit = decodes.steps_to_finish()
        if decodes.windowed:
            limit = min(limit, decodes.steps_to_window() or limit)
        return max(decodes.steps_within(self.pool.free_blocks, limit + ahead) - ahead, 0)

    def advance_steady(self, steps: int) -> list[Request]:
        """Run `steps` of them at once: same outcome as planning and completing each. Returns those who emitted their
        last token; `release` lets them go.
        """
        self.pool.free_blocks -= self.decodes.blocks_needed_for(steps)
        return self.decodes.advance(steps)

    def check(self) -> None:
        """Raise InvariantError if a block is lost or shared, or a sum is off. For tests, after any step."""
        decoding = [r for r in self.running.values() if r.id in self.decodes]
        self.decodes.check(decoding)
        size = self.pool.block_size
        tick = self.decodes.tick
        held = sum(-(-(r.offset + tick) // size) for r in decoding)
        held += sum(-(-r.computed_tokens // size) for r in self.running.values() if r.id not in self.decodes)
        self.pool.check(held)
        swapped = sum(self.pool.blocks_for(r.computed_tokens) for r in self.waiting if r.swapped)
        if swapped + self.free_swap_blocks != self.swap_blocks:
            raise InvariantError(f"{swapped} swap blocks held + {self.free_swap_blocks} free")
        if len(self.running) > self.parameters.max_num_seqs:
            raise InvariantError(f"{len(self.running)} requests run, allowed {self.parameters.max_num_seqs}")
