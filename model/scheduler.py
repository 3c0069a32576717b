"""Continuous batching: which requests run in the next step, and for how many tokens each.

There is no prefill or decode phase, only computed tokens that catch up with known tokens. The plan of a step advances
the requests at once; `complete` stamps times and frees blocks when the step has ended. So a step can be planned while
the one before still runs (asynchronous scheduling), and the same code serves both.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from servecast.hardware.errors import InvariantError
from servecast.model.admission import AdmissionRule, QueueState
from servecast.model.block_pool import BlockPool
from servecast.model.interruptions import Interruptions
from servecast.model.limits import Limits
from servecast.model.preemption import VICTIMS, HostMemory
from servecast.model.progress import Progress
from servecast.model.request import Request
from servecast.model.running_batch import RunningBatch
from servecast.model.scheduler_parameters import SchedulerParameters
from servecast.model.slo import Slo
from servecast.model.start_rules import StartRules
from servecast.model.step import Step
from servecast.model.waiting_queue import waiting_queue


class Scheduler:
    """Plans steps over a pool of KV blocks. Pure: no clock of its own, times come in as arguments (seconds).

    max_model_len: most tokens of a request. host: where swapped KV goes. windows: the model's attention windows.
    rule: admission control. num_lanes: steps that can be on their way at once, see `Lanes`. gaps_s: times between two
    tokens of a request that had no token in some step between, for the ITL. prefix_tokens, prefix_hit_tokens: of
    prompts looked up in the prefix cache, and found there.
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
        num_lanes: int = 1,
    ) -> None:
        self.parameters = parameters
        self.pool = pool
        self.host = host or HostMemory(parameters.preemption, 0, None)
        self.rule = rule
        self.waiting = waiting_queue(parameters.policy, slo, pool.hit_blocks)
        self.waiting_tokens = 0
        self.batch = RunningBatch(parameters, pool, windows, num_lanes)
        self.running, self.decodes = self.batch.requests, self.batch.decodes
        self.progress = Progress(parameters.max_num_seqs)
        self.interruptions = Interruptions()
        self.gaps_s: list[float] = []
        self.prefix_tokens = 0
        self.prefix_hit_tokens = 0
        self.rules = StartRules(parameters, self.batch, self.progress)
        self._static = parameters.kind == "static"
        self.limits = Limits.of(parameters, pool, max_model_len)
        self._token_budget, self._max_num_seqs = parameters.max_num_batched_tokens, parameters.max_num_seqs
        self._victim = VICTIMS[parameters.preemption.victim]
        # Whether somebody waits who was there when the last step was planned.
        self._left_behind = False
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
            self.rules.never_start(request)
        elif self.rule is not None:
            reason = self.rule.refuses(request, self._queue_for(request))
            if reason is not None:
                return reason
        self.waiting.push(request)
        self.waiting_tokens += request.prompt_tokens
        return None

    def _queue_for(self, request: Request) -> QueueState:
        """What `request` finds when it arrives."""
        under_way = self._planned_tokens + sum(other.uncomputed_tokens for other in self.batch.prefilling)
        budget, waiting, rules = self._token_budget - self.decodes.size, self.waiting, self.rules
        free = not self._left_behind and (not waiting or rules.hits(waiting.peek(), budget) is not None)
        free = free and rules.starts_next(request, len(waiting), budget - self.waiting_tokens)
        return QueueState(len(self.waiting), self.waiting_tokens + under_way, free)

    # Planning

    def turn_to_lane(self, busy: Collection[int]) -> int:
        """Plan next for a lane that is not `busy`, see `Lanes`. Returns its index."""
        self.decodes = self.batch.turn_from(busy)
        return self.batch.lanes.index

    def schedule(self, now_s: float) -> Step | None:
        """Plan the next step, or return None if nothing can run. Running requests come first, then admissions."""
        step, batch = Step(), self.batch
        self.pool.settle()
        preempted = self._make_room(step, now_s)
        budget = self._token_budget - batch.plan_decodes(step)
        if batch.prefilling:
            budget -= batch.plan_prefilling(step, budget)
        # Who was just preempted stands in front; admitting in the same step would undo it.
        if self.waiting and not preempted:
            self._admit(step, budget, now_s)
        if self._static and batch.prefilling:
            batch.emit_together(step)
        self._left_behind = bool(self.waiting)
        return self._planned(step) if step.rows or step.chunks else None

    def plan_steady(self) -> Step:
        """Plan one of the steps that `steady_steps` foresaw: everybody who decodes does, nobody joins."""
        self.pool.settle()
        self.batch.plan_decodes(step := Step())
        return self._planned(step)

    def _planned(self, step: Step) -> Step:
        self._unfinished_steps += 1
        self._planned_tokens += step.prefill_tokens
        self._finishing += len(step.finishing)
        return step

    # Admission

    def _admit(self, step: Step, budget: int, now_s: float) -> None:
        """Admit from the head of the queue while it fits. Prompts over the limit of long ones let others pass."""
        rules = self.rules
        rules.opening = self._static and not self.running
        passed_over = []
        while self.waiting:
            request = self.waiting.peek()
            if rules.limits_long and rules.too_many_long(request):
                passed_over.append(self.waiting.take())
                continue
            hits = rules.hits(request, budget)
            if hits is None:
                break
            self.waiting.take()
            self.waiting_tokens -= request.prompt_tokens
            budget -= self._start(step, request, hits, budget, now_s)
        for request in reversed(passed_over):
            self.waiting.restore(request)
        rules.opening = False

    def _start(self, step: Step, request: Request, hits: int, budget: int, now_s: float) -> int:
        """Run `request` from this step on; returns the tokens that it computes in it."""
        if request.scheduled_s is None:
            request.scheduled_s = now_s
            self.progress.newcomers += 1
            self.prefix_tokens += request.prompt_tokens
            self.prefix_hit_tokens += hits * self.pool.block_size
        else:
            self.interruptions.resumed(request.id, now_s)
        self.rules.started(request)
        if request.swapped:
            blocks = self.pool.blocks_for(request.computed_tokens)
            self.host.fetch(blocks)
            step.swap_in_blocks += blocks
            step.swaps = True
            request.swapped = False
        return self.batch.start(step, request, hits, budget)

    # Preemption

    def _make_room(self, step: Step, now_s: float) -> bool:
        """Preempt until the running requests' next blocks are free; whether anybody was.

        With the last admitted as victims, going through the running requests in order and preempting at each shortage
        ends with the same set: the fewest last-admitted ones whose blocks cover what the others need.
        """
        batch, pool = self.batch, self.pool
        if batch.blocks_needed() <= pool.free_blocks:
            return False
        while batch.blocks_needed() > pool.free_blocks:
            self._preempt(step, self._victim(batch.newest_first(), batch.held_blocks), now_s)
        return True

    def _preempt(self, step: Step, request: Request, now_s: float) -> None:
        blocks = self.batch.held_blocks(request)
        if self.batch.remove(request):
            if self._unfinished_steps and len(self.batch.lanes) == 1:
                self._interrupted.append(request)
            else:
                request.last_token_s = now_s
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
        self.rules.finished(finished)
        return self.batch.release(finished)

    # Coasting

    def steady_steps(self, ahead: int) -> int:
        """How many steps after the planned ones are certain to be decodes of the batch as it is, if nothing arrives.

        The last of them may be one in which somebody finishes. 0 if the next plan could be anything else.
        ahead: steps that are planned before the last of them ends (0 or 1); those must not need a preemption either.
        """
        decodes = self.decodes
        self.pool.settle()
        if not decodes.size or self.batch.prefilling or (self.waiting and self._may_admit()):
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
        budget, returning = self._token_budget - self.decodes.size, self.decodes.most_returned()
        return self.rules.hits(self.waiting.peek(), budget, returning) is not None

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
        self.batch.check()
        self.host.check(sum(self.pool.blocks_for(r.computed_tokens) for r in self.waiting if r.swapped))
        if self.waiting_tokens != sum(request.prompt_tokens for request in self.waiting):
            raise InvariantError(f"{self.waiting_tokens} waiting prompt tokens counted, others there")
        if len(self.running) > self._max_num_seqs:
            raise InvariantError(f"{len(self.running)} requests run, allowed {self._max_num_seqs}")
