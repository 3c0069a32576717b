"""Continuous batching: which requests run in the next step, and for how many tokens each.

There is no prefill or decode phase, only computed tokens that catch up with known tokens. The plan of a step advances
the requests at once; `complete` stamps times and frees blocks when the step has ended. So a step can be planned while
the one before still runs (asynchronous scheduling), and the same code serves both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from servecast.hardware.errors import InvariantError
from servecast.model.admission import AdmissionRule, QueueState
from servecast.model.block_pool import BlockPool
from servecast.model.decode_batch import DecodeBatch
from servecast.model.interruptions import Interruptions
from servecast.model.limits import Limits
from servecast.model.preemption import VICTIMS, HostMemory
from servecast.model.progress import Progress
from servecast.model.request import Request
from servecast.model.scheduler_parameters import SchedulerParameters
from servecast.model.slo import Slo
from servecast.model.step import Step
from servecast.model.waiting_queue import waiting_queue


class Scheduler:
    """Plans steps over a pool of KV blocks. Pure: no clock of its own, times come in as arguments (seconds).

    max_model_len: most tokens of a request. host: where swapped KV goes. windows: the model's attention windows.
    rule: admission control. gaps_s: times between two tokens of a request that had no token in some step between, for
    the ITL. prefix_tokens, prefix_hit_tokens: of prompts looked up in the prefix cache, and found there.
    """

    def __init__(
        self,
        parameters: SchedulerParameters,
        pool: BlockPool,
        *,
        max_model_len: int,
        host: HostMemory | None = None,
        windows: Sequence[int] = (),
        rule: AdmissionRule | None = None,
        slo: Slo | None = None,
    ) -> None:
        self.parameters = parameters
        self.pool = pool
        self.host = host or HostMemory(parameters.preemption, 0, None)
        self.rule = rule
        self.waiting = waiting_queue(parameters.policy, slo, pool.hit_blocks)
        self.waiting_tokens = 0
        # Running requests by id in the order of admission.
        self.running: dict[int, Request] = {}
        self.decodes = DecodeBatch(pool.block_size, tuple(windows))
        self.progress = Progress(parameters.max_num_seqs)
        self.interruptions = Interruptions()
        self.gaps_s: list[float] = []
        self.prefix_tokens = 0
        self.prefix_hit_tokens = 0
        self._prefilling: list[Request] = []
        self._stuck: set[int] = set()
        self._reserves_outputs, self._reserved_blocks = parameters.reserves_outputs, 0
        self._reserves_prompts, self._caching = parameters.scheduler_reserve_full_isl, parameters.enable_prefix_caching
        # Whether anything but budgets may keep a request waiting.
        self._rules = parameters.kind == "static" or parameters.backpressure
        self.limits = Limits.of(parameters, pool, max_model_len)
        self._token_budget, self._max_num_seqs = parameters.max_num_batched_tokens, parameters.max_num_seqs
        self._chunked, self._chunk_limit = parameters.chunked, parameters.chunk_limit
        self._watermark_blocks = int(parameters.watermark * pool.num_blocks)
        self._victim = VICTIMS[parameters.preemption.victim]
        self._limits_long = bool(parameters.long_prefill_token_threshold) and parameters.max_num_partial_prefills > 1
        self._opening = False
        self._unfinished_steps = 0
        self._planned_tokens = 0
        self._finishing = 0
        self._interrupted: list[Request] = []

    # Arrivals

    def add(self, request: Request) -> str | None:
        """Queue `request`. Returns why it was rejected, or None if it was not."""
        reason = self.limits.never_runs(request)
        if reason is not None:
            if self.parameters.on_unschedulable == "reject":
                return reason
            self._stuck.add(request.id)
            self._rules = True
        elif self.rule is not None:
            under_way = self._planned_tokens + sum(other.uncomputed_tokens for other in self._prefilling)
            reason = self.rule.refuses(request, QueueState(len(self.waiting), self.waiting_tokens + under_way))
            if reason is not None:
                return reason
        self.waiting.push(request)
        self.waiting_tokens += request.prompt_tokens
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
        self._plan_decodes(step := Step())
        return self._planned(step)

    def _planned(self, step: Step) -> Step:
        self._unfinished_steps += 1
        self._planned_tokens += step.prefill_tokens
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
            self.pool.extend_decodes(decodes.blocks_needed())
            step.finishing = decodes.advance(1)
        return size

    def _plan_prefilling(self, step: Step, budget: int) -> int:
        """Go on with prompts that are under way; returns the tokens used. Decodes have had theirs before."""
        requests, self._prefilling = self._prefilling, []
        left = budget
        for request in requests:
            tokens = self._next_chunk(request, left)
            if tokens:
                self.pool.extend(request, self.pool.growth(request.computed_tokens, tokens))
            self._plan_chunk(step, request, tokens)
            left -= tokens
        return budget - left

    def _next_chunk(self, request: Request, budget: int) -> int:
        return min(request.uncomputed_tokens, budget, self._chunk_limit)

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
            if self._caching:
                self.pool.publish(request, after)
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
        """Admit from the head of the queue while it fits. Prompts over the limit of long ones let others pass."""
        self._opening = not self.running
        passed_over = []
        while self.waiting:
            request = self.waiting.peek()
            if self._limits_long and self._too_many_long(request):
                passed_over.append(self.waiting.take())
                continue
            hits = self._admissible_hits(request, budget)
            if hits is None:
                break
            self.waiting.take()
            self.waiting_tokens -= request.prompt_tokens
            budget -= self._start(step, request, hits, budget, now_s)
        for request in reversed(passed_over):
            self.waiting.restore(request)
        self._opening = False

    def _too_many_long(self, request: Request) -> bool:
        threshold, limit = self.parameters.long_prefill_token_threshold, self.parameters.max_long_partial_prefills
        long = sum(other.prompt_tokens > threshold for other in self._prefilling)
        return request.prompt_tokens > threshold and long >= limit

    def _admissible_hits(self, request: Request, budget: int) -> int | None:
        """Cached blocks that `request` would start with if it were admitted now, None if it has to wait."""
        if budget <= 0 or len(self.running) >= self._max_num_seqs or (self._rules and self._held_back(request)):
            return None
        hits = self.pool.hit_blocks(request) if self._caching and not request.swapped else 0
        computed = hits * self.pool.block_size or request.computed_tokens
        known = request.known_tokens
        wanted = known - computed
        # A recomputed sequence can outgrow the budget: it comes back in pieces even when prompts may not be cut.
        if not self._chunked and budget < wanted <= self._token_budget:
            return None
        tokens = min(wanted, budget, self._chunk_limit)
        limit = self.parameters.max_num_partial_prefills
        if limit > 1 and tokens < wanted and len(self._prefilling) >= limit:
            return None
        if self._reserves_outputs:
            fits = self._reserved_blocks + self.pool.blocks_for(request.max_kv_tokens) <= self.pool.num_blocks
            return hits if fits else None
        needed = self.pool.blocks_for(known if self._reserves_prompts else computed + tokens) - hits
        needed += self.pool.free_hits(request, hits) if hits else 0
        # Alone it may use the whole pool, else the watermark could keep it out for ever.
        return hits if self.pool.can_allocate(needed, self._watermark_blocks if self.running else 0) else None

    def _held_back(self, request: Request) -> bool:
        """Whether a rule besides budgets keeps `request` waiting."""
        if request.id in self._stuck:
            return True
        if self.parameters.kind == "static" and not self._opening:
            return True
        fresh = request.scheduled_s is None
        return fresh and self.parameters.backpressure and self.progress.thrash.thrashing and bool(self.running)

    def _start(self, step: Step, request: Request, hits: int, budget: int, now_s: float) -> int:
        """Run `request` from this step on; returns the tokens that it computes in it."""
        pool = self.pool
        self.running[request.id] = request
        if request.scheduled_s is None:
            request.scheduled_s = now_s
            self.progress.newcomers += 1
            self.prefix_tokens += request.prompt_tokens
            self.prefix_hit_tokens += hits * pool.block_size
        else:
            self.interruptions.resumed(request.id, now_s)
        if self._reserves_outputs:
            self._reserved_blocks += pool.blocks_for(request.max_kv_tokens)
        if request.swapped:
            blocks = pool.blocks_for(request.computed_tokens)
            self.host.fetch(blocks)
            step.swap_in_blocks += blocks
            step.swaps = True
            request.swapped = False
        elif hits:
            request.computed_tokens = hits * pool.block_size
        tokens = self._next_chunk(request, budget)
        pool.take(request, hits, pool.blocks_for(request.computed_tokens + tokens) - hits)
        if request.emitted_tokens and request.uncomputed_tokens == 1:
            self._decode_once(step, request)
        else:
            self._plan_chunk(step, request, tokens)
        return tokens

    def _decode_once(self, step: Step, request: Request) -> None:
        """The first decode of a request that comes back with its KV; from the next step on the batch has it."""
        request.computed_tokens += 1
        step.add_context(request.computed_tokens, [windowed.window for windowed in self.decodes.windowed])
        step.resumed += 1
        step.rows += 1
        self._emit(step, request)

    # Preemption

    def _make_room(self, step: Step, now_s: float) -> bool:
        """Preempt until the running requests' next blocks are free; whether anybody was.

        With the last admitted as victims, going through the running requests in order and preempting at each shortage
        ends with the same set: the fewest last-admitted ones whose blocks cover what the others need.
        """
        if self._blocks_needed() <= self.pool.free_blocks:
            return False
        while self._blocks_needed() > self.pool.free_blocks:
            self._preempt(step, self._victim(self._newest_first(), self._held_blocks), now_s)
        return True

    def _blocks_needed(self) -> int:
        blocks = self.decodes.blocks_needed()
        if self._prefilling:
            left = self._token_budget - self.decodes.size
            for request in self._prefilling:
                tokens = self._next_chunk(request, left)
                blocks += self.pool.growth(request.computed_tokens, tokens)
                left -= tokens
        return blocks

    def _newest_first(self) -> Iterator[Request]:
        """Running requests but those about to finish: their blocks come free at the end of the running step anyway."""
        for request in reversed(self.running.values()):
            if request.emitted_tokens < request.output_tokens:
                yield request

    def _held_blocks(self, request: Request) -> int:
        decoding = request.id in self.decodes
        return self.pool.blocks_for(request.offset + self.decodes.tick if decoding else request.computed_tokens)

    def _preempt(self, step: Step, request: Request, now_s: float) -> None:
        blocks = self._held_blocks(request)
        del self.running[request.id]
        if request.id in self.decodes:
            self.decodes.remove(request)
            if self._unfinished_steps:
                self._interrupted.append(request)
            else:
                request.last_token_s = now_s
        else:
            self._prefilling.remove(request)
        self.progress.note_preemption(request, self.decodes.tick, self.decodes.size)
        self.pool.keep(request, request.computed_tokens)
        self.pool.release(request, blocks)
        if self.host.store(request, blocks):
            step.swap_out_blocks += blocks
            step.swaps = True
            request.swapped = True
        else:
            request.lost_tokens = max(request.lost_tokens, request.computed_tokens)
            request.computed_tokens = 0
        self.interruptions.preempted(request.id, now_s, swapped=request.swapped)
        self.waiting_tokens += request.prompt_tokens
        if self.parameters.preemption.reinsert == "front":
            self.waiting.push_front(request)
        else:
            self.waiting.push_back(request)

    # The end of a step

    def complete(self, step: Step, now_s: float) -> Sequence[Request]:
        """`step` ended at `now_s`: tokens go out, finished requests leave. Returns the finished."""
        self._unfinished_steps -= 1
        self._planned_tokens -= step.prefill_tokens
        for request in step.emitting:
            if request.first_token_s is None:
                request.first_token_s = now_s
            elif request.last_token_s is not None:
                self.gaps_s.append(now_s - request.last_token_s)
                self.interruptions.restored(request.id, now_s)
                request.last_token_s = None
        if self._interrupted:
            for request in self._interrupted:
                request.last_token_s = now_s
            self._interrupted = []
        if self.progress.watching:
            self.progress.note_steps(now_s, 1, step.rows, step.recomputed_tokens)
        if step.finishing:
            self._finishing -= len(step.finishing)
            self.release(step.finishing)
        return step.finishing

    def release(self, finished: Sequence[Request]) -> Sequence[Request]:
        """Let `finished` requests go, with their blocks. Returns them."""
        for request in finished:
            del self.running[request.id]
            self.pool.release(request, self.pool.blocks_for(request.computed_tokens))
            if self._reserves_outputs:
                self._reserved_blocks -= self.pool.blocks_for(request.max_kv_tokens)
        return finished

    # Coasting

    def steady_steps(self, ahead: int) -> int:
        """How many steps after the planned ones are certain to be decodes of the batch as it is, if nothing arrives.

        The last of them may be one in which somebody finishes. 0 if the next plan could be anything else.
        ahead: steps that are planned before the last of them ends (0 or 1); those must not need a preemption either.
        """
        decodes = self.decodes
        if not decodes.size or self._prefilling or (self.waiting and self._may_admit()):
            return 0
        limit = decodes.steps_to_finish()
        if ahead and self.waiting:
            # The step after the last is planned without those who finish: their tokens of the budget are free.
            limit -= 1
        if decodes.windowed:
            limit = min(limit, decodes.steps_to_window() or limit)
        return max(decodes.steps_within(self.pool.free_blocks, limit + ahead) - ahead, 0)

    def _may_admit(self) -> bool:
        """Whether somebody who waits could be admitted in one of the next steps, without an arrival or a finish."""
        if self._finishing or self.progress.thrash.thrashing:
            return True
        if not self.waiting.settled and len(self.running) < self._max_num_seqs:
            return True
        return self._admissible_hits(self.waiting.peek(), self._token_budget - self.decodes.size) is not None

    def advance_steady(self, steps: int, now_s: float) -> list[Request]:
        """Run `steps` of them at once, to end at `now_s`: same outcome as planning and completing each. Returns those
        who emitted their last token; `release` lets them go.
        """
        if self.progress.watching:
            self.progress.note_steps(now_s, steps, self.decodes.size, 0)
        self.pool.extend_decodes(self.decodes.blocks_needed_for(steps))
        return self.decodes.advance(steps)

    def check(self) -> None:
        """Raise InvariantError if a block is lost or shared, or a sum is off. For tests, after any step."""
        self.decodes.check([request for request in self.running.values() if request.id in self.decodes])
        self.pool.check(sum(map(self._held_blocks, self.running.values())))
        self.host.check(sum(self.pool.blocks_for(r.computed_tokens) for r in self.waiting if r.swapped))
        if self.waiting_tokens != sum(request.prompt_tokens for request in self.waiting):
            raise InvariantError(f"{self.waiting_tokens} waiting prompt tokens counted, others there")
        if len(self.running) > self._max_num_seqs:
            raise InvariantError(f"{len(self.running)} requests run, allowed {self._max_num_seqs}")
