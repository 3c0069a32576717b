"""Events of an engine, and several steps as one event."""

from __future__ import annotations

import math

import simpy

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
    step i (from 0) lasts duration_s + i * slope_s. last_s: when the last has ended.
    """

    __slots__ = ("_end", "duration_s", "first_s", "last_s", "slope_s", "start_s", "steps")

    def __init__(self, start_s: float, first_s: float, duration_s: float, slope_s: float, steps: int) -> None:
        self.start_s = start_s
        self.first_s = first_s
        self.duration_s = duration_s
        self.slope_s = slope_s
        self.steps = steps
        self.last_s = self.end_s(steps)
        self._end: simpy.Event | None = None

    def end(self, env: simpy.Environment) -> simpy.Event:
        """The event to wait for."""
        self._end = EngineEvent(env, self.last_s - env.now)
        return self._end

    def end_s(self, steps: int) -> float:
        """When `steps` of the decode steps have ended."""
        decode_s = steps * self.duration_s + self.slope_s * (steps * (steps - 1) / 2)
        return self.start_s + self.first_s + decode_s

    def cut(self, env: simpy.Environment) -> None:
        """An arrival: end with the step that is under way. Whoever waits for the end is woken then."""
        self.stop_by(env.now)
        sooner, later = EngineEvent(env, max(self.last_s - env.now, 0.0)), self._end
        assert later is not None  # somebody waits
        sooner.callbacks, later.callbacks = later.callbacks, []

    def stop_by(self, time_s: float) -> None:
        """Leave out the steps that have not begun by `time_s`, but for the first of all."""
        if self.last_s <= time_s:
            return
        rest = time_s - self.start_s - self.first_s
        if rest > 0:
            self.steps = min(self._steps_begun(rest, time_s), self.steps)
        else:
            self.steps = 0 if self.first_s else 1
        self.last_s = self.end_s(self.steps)

    def _steps_begun(self, rest: float, time_s: float) -> int:
        # The root of the series, in the form that does not cancel for small slopes.
        half = self.duration_s - self.slope_s / 2
        steps = int(2 * rest / (half + math.sqrt(half * half + 2 * self.slope_s * rest)))
        # That many have ended before `time_s`, but for one either way by rounding.
        return steps if steps and self.end_s(steps) >= time_s else steps + 1
