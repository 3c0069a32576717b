"""A replica: one engine with one scheduler and one KV pool, as a SimPy process."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import Any

import simpy

from servecast.model.forward import ForwardPass
from servecast.model.host_link import HostLink
from servecast.model.ledger import Ledger
from servecast.model.records import RequestRows, StepRows
from servecast.model.request import Request
from servecast.model.scheduler import Scheduler
from servecast.model.step import Step

Process = Generator[simpy.Event, Any, Any]

# SimPy knows 0 (urgent) and 1 (normal). Engine events come after both, so that a request which arrives at the very
# instant at which a step ends is seen by the plan made then.
_LAST = 2


class EngineEvent(simpy.Event):
    """Happens `delay` seconds from now, after everything else of that instant. Made as SimPy makes its Timeout."""

    def __init__(self, env: simpy.Environment, delay: float) -> None:
        self.env = env
        self.callbacks = []
        self._value = None
        self._ok = True
        self._defused = False
        env.schedule(self, _LAST, delay)  # type: ignore[arg-type]  # any integer orders events


class Coast:
    """Several steps as one event: one of `first_s` (0 for none), then `steps` decode steps over one batch, of which
    step i (from 0) lasts duration_s + i * slope_s. The engine waits for `end`.
    """

    __slots__ = ("_env", "duration_s", "end", "first_s", "slope_s", "start_s", "steps")

    def __init__(
        self, env: simpy.Environment, first_s: float, duration_s: float, slope_s: float, steps: int
    ) -> None:
        self._env = env
        self.start_s = env.now
        self.first_s = first_s
        self.duration_s = duration_s
        self.slope_s = slope_s
        self.steps = steps
        self.end: simpy.Event = EngineEvent(env, self.end_s(steps) - self.start_s)

    def end_s(self, steps: int) -> float:
        """When `steps` of the decode steps have ended."""
        decode_s = steps * self.duration_s + self.slope_s * (steps * (steps - 1) / 2)
        return self.start_s + self.first_s + decode_s

    def cut(self) -> None:
        """End with the step that is under way now; whoever waits for the end is woken then."""
        now = self._env.now
        self.steps = self._steps_by(now)
        end = EngineEvent(self._env, max(self.end_s(self.steps) - now, 0.0))
        assert self.end.callbacks is not None  # it has not happened yet
        end.callbacks, self.end.callbacks = self.end.callbacks, []

    def _steps_by(self, now_s: float) -> int:
        """The least number of steps that has not ended before `now_s`; at least one, or the step before them."""
        rest = now_s - self.start_s - self.first_s
        if rest <= 0:
            return 0 if self.first_s else 1
        # The root of the series, in the form that does not cancel for small slopes.
        half = self.duration_s - self.slope_s / 2
        steps = int(2 * rest / (half + math.sqrt(half * half + 2 * self.slope_s * rest)))
        # That many have ended before `now_s`, but for one either way by rounding.
        if steps and self.end_s(steps) >= now_s:
            return min(steps, self.steps)
        return min(steps + 1, self.steps)


class Replica:
    """Runs `scheduler`'s steps at the prices of `forward`. block_bytes: KV bytes of a block on one GPU."""

    def __init__(
        self,
        env: simpy.Environment,
        index: int,
        *,
        scheduler: Scheduler,
        forward: ForwardPass,
        host_link: HostLink,
        block_bytes: float,
        async_scheduling: bool,
        coast: bool,
        requests: RequestRows,
        steps: StepRows,
    ) -> None:
        self.index = index
        self.scheduler = scheduler
        self.ledger = Ledger(forward)
        self.host_link = host_link
        self._env = env
        self._forward = forward
        self._block_bytes = block_bytes
        self._async_scheduling = async_scheduling
        self._may_coast = coast
        self._requests = requests
        self._append_row = steps.append
        self._idle: simpy.Event | None = None
        self._coast: Coast | None = None
        self._fixed_steady = False
        self._last_end_s = 0.0
        self._process = env.process(self._engine())

    def submit(self, request: Request) -> None:
        """Take in `request` now, or reject it."""
        request.queued_s = self._env.now
        reason = self.scheduler.add(request)
        if reason is not None:
            self._requests.reject(request, reason, self.index)
            _tell(request)
        elif self._idle is not None:
            self._idle.succeed()
            self._idle = None
        elif self._coast is not None and self.scheduler.waiting.peek() is request:
            # Behind others who wait it changes nothing before they are admitted.
            self._coast.cut()
            self._coast = None

    def leftovers(self) -> list[Request]:
        """Requests that are still here."""
        return [*self.scheduler.running.values(), *self.scheduler.waiting]

    # The engine

    def _engine(self) -> Process:
        """`step` is the plan of the next step; None where it is not made yet (or, after coasting with asynchronous
        scheduling, where it is fixed to be one more steady step).
        """
        step: Step | None = None
        while True:
            steady = self._steady_steps(step)
            if steady:
                step = yield from self._coast_along(step, steady)
            elif step is not None or (step := self._plan()) is not None:
                step = yield from self._run(step)
            else:
                self._idle = self._env.event()
                yield self._idle
                # Others may arrive in this very instant; plan when all are here.
                yield EngineEvent(self._env, 0.0)

    def _plan(self) -> Step | None:
        if self._fixed_steady:
            self._fixed_steady = False
            return self.scheduler.plan_steady()
        return self.scheduler.schedule(self._env.now)

    def _steady_steps(self, step: Step | None) -> int:
        """Decode steps after `step` that can be run together with it in one event.

        Somebody may wait for a finish, so only the last of them may be one.
        """
        if not self._may_coast or (step is not None and step.finishing):
            return 0
        return self.scheduler.steady_steps(ahead=self._async_scheduling)

    def _run(self, step: Step) -> Generator[simpy.Event, Any, Step | None]:
        """Run `step`; returns the plan of the next if it was made meanwhile."""
        env, scheduler = self._env, self.scheduler
        following = scheduler.schedule(env.now) if self._async_scheduling else None
        if step.swap_out_blocks or step.swap_in_blocks:
            yield from self._swap(step)
        start, duration = env.now, self._price(step)
        yield EngineEvent(env, duration)
        self._record(step, start, duration)
        self._finish(scheduler.complete(step, env.now))
        return following

    def _coast_along(self, step: Step | None, steps: int) -> Generator[simpy.Event, Any, Step | None]:
        """Run `step`, if any, and `steps` steady steps, fewer if a request arrives; returns as `_run`."""
        env, scheduler = self._env, self.scheduler
        if step is not None and (step.swap_out_blocks or step.swap_in_blocks):
            yield from self._swap(step)
        self._coast = coast = self._start_coast(step, steps)
        yield coast.end
        self._coast = None
        if step is not None:
            self._record(step, coast.start_s, coast.first_s)
            scheduler.complete(step, coast.start_s + coast.first_s)
        done = coast.steps
        if self._async_scheduling and done < steps:
            # An arrival: one more steady step was fixed before it; what follows that one is planned now.
            scheduler.advance_steady(done)
            fixed, following = scheduler.plan_steady(), scheduler.schedule(env.now)
            yield EngineEvent(env, coast.end_s(done + 1) - env.now)
            self._record_steady(coast, fixed.steady, done + 1)
            self._finish(scheduler.complete(fixed, env.now))
            self._fixed_steady = False
            return following
        if done:
            decodes, finished = scheduler.decodes.size, scheduler.advance_steady(done)
            self._record_steady(coast, decodes, done)
            self._finish(scheduler.release(finished))
        self._fixed_steady = self._async_scheduling and scheduler.decodes.size > 0
        return None

    def _swap(self, step: Step) -> Process:
        """Copy KV blocks out and in before the step: it reads what comes in and writes where something went out."""
        start = self._env.now
        out_bytes, in_bytes = (
            step.swap_out_blocks * self._block_bytes,
            step.swap_in_blocks * self._block_bytes,
        )
        yield from self.host_link.exchange(out_bytes, in_bytes)
        self.ledger.host_link_s += self._env.now - start

    # Prices and records

    def _price(self, step: Step) -> float:
        """Seconds of `step`, entered in the ledger."""
        forward, ledger = self._forward, self.ledger
        decodes = step.steady + step.resumed
        if not step.chunks:
            seconds = forward.steady_seconds(decodes, step.context, step.longest, step.windowed)
            ledger.add_steady(decodes, 1, seconds)
            return seconds
        decode_s = (
            forward.decode_seconds(decodes, step.context, step.longest, step.windowed) if decodes else 0.0
        )
        prefill_s = forward.prefill_seconds(step.chunks)
        tokens, requests = decodes + step.prefill_tokens, decodes + len(step.chunks)
        ledger.add(tokens, step.rows, requests, decode_s, prefill_s)
        return forward.base_seconds(tokens, step.rows, requests) + decode_s + prefill_s

    def _start_coast(self, step: Step | None, steps: int) -> Coast:
        """`step`, if any, and the steady steps after it, at their prices."""
        first_s = 0.0 if step is None else self._price(step)
        batch, forward = self.scheduler.decodes, self._forward
        size, (context, longest) = batch.size, batch.contexts()
        if batch.windowed:
            duration = forward.steady_seconds(size, context, longest, batch.windowed_sums())
            growth = forward.decode_growth_s(size, batch.windowed_growth())
        else:
            duration = forward.steady_seconds(size, context, longest)
            growth = forward.decode_growth_s(size)
        return Coast(self._env, first_s, duration, growth, steps)

    def _record(self, step: Step, start: float, duration: float) -> None:
        scheduler = self.scheduler
        end = start + duration
        self._append_row(
            self.index,
            start,
            duration,
            0.0,
            1,
            end - self._last_end_s,
            step.steady + step.resumed,
            step.steady,
            len(step.chunks),
            step.prefill_tokens,
            len(scheduler.waiting),
            len(scheduler.running),
            scheduler.pool.num_blocks - scheduler.pool.free_blocks,
        )
        self._last_end_s = end

    def _record_steady(self, coast: Coast, decodes: int, count: int) -> None:
        """A row for the first `count` steps of `coast`, and their share of the ledger."""
        scheduler = self.scheduler
        start, end = coast.start_s + coast.first_s, coast.end_s(count)
        self.ledger.add_steady(decodes, count, end - start)
        self._append_row(
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
        )
        self._last_end_s = end

    def _finish(self, finished: Sequence[Request]) -> None:
        for request in finished:
            self._requests.finish(request, self._env.now, self.index)
            _tell(request)


def _tell(request: Request) -> None:
    if request.done is not None:
        request.done.succeed()
