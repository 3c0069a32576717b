"""A replica of several pipeline stages, with as many steps on their way as it has stages.

As in vLLM: a request whose token is on its way is not scheduled again before the token is out, so the requests of a
step stay together as one of the pipeline's lanes; which lane a request joins is decided by the step that its prompt
ends in. Chunks of one prompt follow each other through the stages without waiting. The engine schedules while a lane is
free and there is something to run, else it waits for the oldest step; whoever arrives meanwhile is seen after that.
Lanes can be of unequal size, as they are in vLLM (vllm-project/vllm#50853), and a lone lane leaves the other stages
idle.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

import simpy

from servecast.model.engine_process import EngineProcess, Process
from servecast.model.host_link import HostLink
from servecast.model.pipeline import Pipeline
from servecast.model.records import RequestRows, StepRows
from servecast.model.scheduler import Scheduler
from servecast.model.step import Step


@dataclass(frozen=True)
class _OnItsWay:
    step: Step
    lane: int
    start_s: float
    end_s: float
    copies: simpy.Process | None


class PipelinedReplica(EngineProcess):
    """Runs `scheduler`'s steps through `pipeline`. The scheduler must have a lane for each stage. Steps are planned
    when they start: there is no asynchronous scheduling, and no coasting.
    """

    def __init__(
        self,
        env: simpy.Environment,
        index: int,
        *,
        scheduler: Scheduler,
        pipeline: Pipeline,
        host_link: HostLink,
        swap_overlap: bool,
        requests: RequestRows,
        steps: StepRows,
    ) -> None:
        super().__init__(
            env,
            index,
            scheduler=scheduler,
            ledger=pipeline,
            host_link=host_link,
            swap_overlap=swap_overlap,
            requests=requests,
            steps=steps,
        )
        self._pipeline = pipeline
        # The lane of the step that is planned.
        self._lane = 0
        self._on_their_way: deque[_OnItsWay] = deque()
        # When the last step of each lane ended, and the last step of any.
        self._lane_ends_s = [0.0] * pipeline.depth
        self._last_end_s = 0.0

    def _engine(self) -> Process:
        while not self.scheduler.progress.hopeless:
            if len(self._on_their_way) < self._pipeline.depth and (step := self._plan()) is not None:
                yield from self._send_off(step)
            elif self._on_their_way:
                yield from self._receive()
            else:
                yield from self._wait_for_work()

    def _plan(self) -> Step | None:
        busy = {sent.lane for sent in self._on_their_way}
        self._lane = self.scheduler.turn_to_lane(busy)
        return self.scheduler.schedule(self._now_s)

    def _send_off(self, step: Step) -> Process:
        copies = None
        if step.swaps:
            copies = yield from self._swap(step)
        # Who arrives while the engine is busy with this step is seen by the next plan: so a second lane begins.
        yield self._at(self._now_s + self._pipeline.host_seconds(step))
        self._now_s = self._env.now
        start_s, end_s = self._pipeline.run(step, self._now_s)
        self._on_their_way.append(_OnItsWay(step, self._lane, start_s, end_s, copies))

    def _receive(self) -> Process:
        """Wait for the oldest step and take in what it brings."""
        sent = self._on_their_way.popleft()
        if sent.end_s > self._env.now:
            yield self._at(sent.end_s)
        self._now_s = max(sent.end_s, self._now_s)
        if sent.copies is not None and sent.copies.is_alive:
            yield from self._await_copies(sent.copies)
        end_s, step = self._now_s, sent.step
        self._note_service(end_s - max(sent.start_s, self._last_end_s), step.prefill_tokens)
        self._record(step, sent.start_s, end_s - sent.start_s, end_s - self._lane_ends_s[sent.lane])
        self._lane_ends_s[sent.lane] = self._last_end_s = end_s
        if self.scheduler.complete(step, end_s):
            self._finish(step.finishing)
