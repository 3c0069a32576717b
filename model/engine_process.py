"""What every engine of a fleet does as a SimPy process, whatever the order in which it runs its steps."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

import simpy

from servecast.model.coast import EngineEvent
from servecast.model.host_link import HostLink
from servecast.model.ledger import StepPrices
from servecast.model.records import RequestRows, StepRows
from servecast.model.request import Request
from servecast.model.scheduler import Scheduler
from servecast.model.step import Step

Process = Generator[simpy.Event, Any, Any]


class EngineProcess:
    """One engine with one scheduler and one KV pool. Subclasses say in `_engine` how its steps follow each other.

    ledger: prices the steps. swap_overlap: KV blocks are copied beside a step, not before it.
    """

    def __init__(
        self,
        env: simpy.Environment,
        index: int,
        *,
        scheduler: Scheduler,
        ledger: StepPrices,
        host_link: HostLink,
        swap_overlap: bool,
        requests: RequestRows,
        steps: StepRows,
    ) -> None:
        self.index = index
        self.scheduler = scheduler
        self.ledger = ledger
        self.host_link = host_link
        self._env = env
        self._swap_overlap = swap_overlap
        self._requests = requests
        self._pack_row, self._add_row = steps.pack, steps.add
        self._idle: simpy.Event | None = None
        # The engine's clock, seconds of simulated time; at or ahead of the simulation's.
        self._now_s = 0.0
        self._process = env.process(self._engine())

    def submit(self, request: Request) -> None:
        """Take in `request` now, or reject it."""
        request.queued_s = self._env.now
        reason = self.scheduler.add(request)
        if reason is not None:
            self._requests.reject(request, reason, self.index)
            if request.done is not None:
                request.done.succeed()
        elif self._idle is not None:
            self._idle.succeed()
            self._idle = None
        else:
            self._note_arrival(request)

    def leftovers(self) -> list[Request]:
        """Requests that are still here."""
        return [*self.scheduler.running.values(), *self.scheduler.waiting]

    def _engine(self) -> Process:
        raise NotImplementedError

    def _note_arrival(self, request: Request) -> None:
        """`request` was queued while the engine works."""

    def _wait_for_work(self) -> Process:
        self._idle = self._env.event()
        yield self._idle
        # Others may arrive in this very instant; plan when all are here.
        yield EngineEvent(self._env, 0.0)
        self._now_s = self._env.now

    def _at(self, end_s: float) -> EngineEvent:
        return EngineEvent(self._env, max(end_s - self._env.now, 0.0))

    def _swap(self, step: Step) -> Generator[simpy.Event, Any, simpy.Process | None]:
        """Copy KV blocks out and in: before the step, or beside it; then returns the process that does."""
        if self._now_s > self._env.now:
            yield self._at(self._now_s)
        copies = self._env.process(self.host_link.exchange(step.swap_out_blocks, step.swap_in_blocks))
        if self._swap_overlap:
            return copies
        yield from self._await_copies(copies)
        return None

    def _await_copies(self, copies: simpy.Process) -> Process:
        """The engine stands still until `copies` are done."""
        yield copies
        self.ledger.host_link_s += self._env.now - self._now_s
        self._now_s = self._env.now

    def _note_service(self, seconds: float, prefill_tokens: int) -> None:
        """Tell the admission rule, while somebody waits, what the engine gets done."""
        rule = self.scheduler.rule
        if rule is not None and self.scheduler.waiting:
            rule.served(seconds, prefill_tokens)

    def _record(self, step: Step, start_s: float, duration_s: float, gap_s: float) -> None:
        """A row for `step`; gap_s: time since the tokens that its steady decodes had before."""
        scheduler = self.scheduler
        self._add_row(
            self._pack_row(
                self.index,
                start_s,
                duration_s,
                0.0,
                1,
                gap_s,
                step.steady + step.resumed,
                step.steady,
                len(step.chunks),
                step.prefill_tokens,
                len(scheduler.waiting),
                len(scheduler.running),
                scheduler.pool.num_blocks - scheduler.pool.free_blocks,
                scheduler.progress.thrash.ratio,
            )
        )

    def _finish(self, finished: Sequence[Request]) -> None:
        for request in finished:
            self._requests.finish(request, self._now_s, self.index)
            if request.done is not None:
                request.done.succeed()
