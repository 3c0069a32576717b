"""A replica of one stage: steps one after the other, runs of equal decode steps as one event."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import simpy

from servecast.model.coast import Coast
from servecast.model.engine_process import EngineProcess, Process
from servecast.model.forward import ForwardPass
from servecast.model.host_link import HostLink
from servecast.model.ledger import Ledger
from servecast.model.records import RequestRows, StepRows
from servecast.model.request import Request
from servecast.model.scheduler import Scheduler
from servecast.model.step import Step


class Replica(EngineProcess):
    """Runs `scheduler`'s steps at the prices of `forward`.

    coast: run equal decode steps as one event. run_ahead: let the replica's own clock run up to the next event of the
    simulation without events in between. For a replica that is alone (else its fellows' events stop it all the time)
    and whose finishes nobody waits for: then nothing but an arrival can act on it.
    """

    ledger: Ledger

    def __init__(
        self,
        env: simpy.Environment,
        index: int,
        *,
        scheduler: Scheduler,
        forward: ForwardPass,
        host_link: HostLink,
        swap_overlap: bool,
        async_scheduling: bool,
        coast: bool,
        run_ahead: bool,
        requests: RequestRows,
        steps: StepRows,
    ) -> None:
        super().__init__(
            env,
            index,
            scheduler=scheduler,
            ledger=Ledger(forward),
            host_link=host_link,
            swap_overlap=swap_overlap,
            requests=requests,
            steps=steps,
        )
        self._forward = forward
        self._async_scheduling = async_scheduling
        self._may_coast = coast
        self._run_ahead = run_ahead
        self._coast: Coast | None = None
        self._fixed_steady = False
        self._last_end_s = 0.0

    def _note_arrival(self, request: Request) -> None:
        if self._coast is not None and self.scheduler.waiting.peek() is request:
            # Behind others who wait it changes nothing before they are admitted.
            self._coast.cut(self._env)
            self._coast = None

    # The engine

    def _engine(self) -> Process:
        """`step` is the plan of the next step; None where it is not made yet (or, after coasting with asynchronous
        scheduling, where it is fixed to be one more steady step).
        """
        step: Step | None = None
        while not self.scheduler.progress.hopeless:
            # A finish is the end of a run: somebody may wait for it, and the batch changes.
            runs_on = self._may_coast and (step is None or not (step.finishing or step.swaps))
            steady = self.scheduler.steady_steps(ahead=self._async_scheduling) if runs_on else 0
            if steady:
                step = yield from self._coast_along(step, steady)
            elif step is not None or (step := self._plan()) is not None:
                step = yield from self._run(step)
            else:
                yield from self._wait_for_work()

    def _plan(self) -> Step | None:
        if self._fixed_steady:
            self._fixed_steady = False
            return self.scheduler.plan_steady()
        return self.scheduler.schedule(self._now_s)

    def _run(self, step: Step) -> Generator[simpy.Event, Any, Step | None]:
        """Run `step`; returns the plan of the next if it was made meanwhile."""
        scheduler = self.scheduler
        following = scheduler.schedule(self._now_s) if self._async_scheduling else None
        copies = None
        if step.swaps:
            copies = yield from self._swap(step)
        start, duration = self._now_s, self.ledger.price(step)
        if not self._skip_to(start + duration):
            yield self._at(start + duration)
        self._now_s = start + duration
        if copies is not None and copies.is_alive:
            yield from self._await_copies(copies)
        self._end_step(step, start, self._now_s - start)
        if scheduler.complete(step, self._now_s):
            self._finish(step.finishing)
        return following

    def _coast_along(self, step: Step | None, steps: int) -> Generator[simpy.Event, Any, Step | None]:
        """Run `step`, if any, and `steps` steady steps, fewer if a request arrives; returns as `_run`."""
        scheduler = self.scheduler
        coast = self._start_coast(step, steps)
        if self._run_ahead:
            next_event_s = self._env.peek()
            coast.stop_by(next_event_s)
            if coast.last_s >= next_event_s:
                yield self._at(coast.last_s)
        else:
            self._coast = coast
            yield coast.end(self._env)
            self._coast = None
        done = coast.steps
        self._now_s = coast.last_s
        if step is not None:
            self._end_step(step, coast.start_s, coast.first_s)
            scheduler.complete(step, coast.start_s + coast.first_s)
        if self._async_scheduling and done < steps:
            return (yield from self._run_fixed(coast, done))
        if done:
            decodes, finished = scheduler.decodes.size, scheduler.advance_steady(done, coast.last_s)
            self._record_steady(coast, decodes, done, coast.last_s)
            if finished:
                self._finish(scheduler.release(finished))
        self._fixed_steady = self._async_scheduling and scheduler.decodes.size > 0
        return None

    def _run_fixed(self, coast: Coast, done: int) -> Generator[simpy.Event, Any, Step | None]:
        """An arrival cut `coast` after `done` steps: one more was fixed before it. What follows that one is planned
        now.
        """
        scheduler = self.scheduler
        scheduler.advance_steady(done, coast.last_s)
        fixed, following = scheduler.plan_steady(), scheduler.schedule(self._now_s)
        end_s = coast.end_s(done + 1)
        if not self._skip_to(end_s):
            yield self._at(end_s)
        self._now_s = end_s
        self._record_steady(coast, fixed.steady, done + 1, end_s)
        if scheduler.complete(fixed, end_s):
            self._finish(fixed.finishing)
        self._fixed_steady = False
        return following

    def _skip_to(self, end_s: float) -> bool:
        """Whether the replica may go on at `end_s` without an event, as nothing else happens before."""
        return self._run_ahead and end_s < self._env.peek()

    # Prices and records

    def _start_coast(self, step: Step | None, steps: int) -> Coast:
        """`step`, if any, and the steady steps after it, at their prices."""
        first_s = 0.0 if step is None else self.ledger.price(step)
        batch, forward = self.scheduler.decodes, self._forward
        size, (context, longest) = batch.size, batch.contexts()
        if batch.windowed:
            duration = forward.steady_seconds(size, context, longest, batch.windowed_sums())
            growth = forward.decode_growth_s(size, batch.windowed_growth())
        else:
            duration = forward.steady_seconds(size, context, longest)
            growth = forward.decode_growth_s(size)
        return Coast(self._now_s, first_s, duration, growth, steps)

    def _end_step(self, step: Step, start_s: float, duration_s: float) -> None:
        """Record `step`, the only one of its time."""
        end_s = start_s + duration_s
        self._note_service(duration_s, step.prefill_tokens)
        self._record(step, start_s, duration_s, end_s - self._last_end_s)
        self._last_end_s = end_s

    def _record_steady(self, coast: Coast, decodes: int, count: int, end: float) -> None:
        """A row for the first `count` steps of `coast`, which last until `end`, and their share of the ledger."""
        scheduler = self.scheduler
        start = coast.start_s + coast.first_s
        self.ledger.add_steady(decodes, count, end - start)
        self._note_service(end - start, 0)
        self._add_row(
            self._pack_row(
                self.index,
                start,
                coast.duration_s,
                coast.slope_s,
                count,
                coast.duration_s,
                decodes,
                decodes,
                0,
                0,
                len(scheduler.waiting),
                len(scheduler.running),
                scheduler.pool.num_blocks - scheduler.pool.free_blocks,
                scheduler.progress.thrash.ratio,
            )
        )
        self._last_end_s = end
