"""The capacity of a scenario: the highest load that meets an SLO, which limit binds there, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from servecast.hardware.errors import ConfigError
from servecast.model.simulation import SimulationParameters
from servecast.model.slo import Slo
from servecast.model.workload import draw_workload
from servecast.sweeps.capacity.accuracy import AccuracyBand, accuracy_band
from servecast.sweeps.capacity.guess import guess_load
from servecast.sweeps.capacity.judge import LimitValue, Question, needed_requests, smallest_cohort
from servecast.sweeps.capacity.load import LoadAxis, load_axis
from servecast.sweeps.capacity.prober import Probe, Prober
from servecast.sweeps.capacity.search import Attempt, Found, SearchRules, search
from servecast.sweeps.intervals import student_t

Progress = Callable[[int], None]

# A run has at least so many times the requests that are in the system at once, so that it is more than filling up.
_TURNOVERS = 10
# At the floor, a request comes once in so many times as it stays: they hardly meet.
_FLOOR_SHARE = 0.002
_CEILING_SHARE = 64.0


@dataclass(frozen=True)
class CapacityOptions:
    """How to search. precision: see SearchRules. seeds: 1 or more, for the seed-to-seed interval. most: simulations of
    the first search. band: also search with all times longer and shorter by the model's error. most_requests: of a
    simulation, however many are at once.
    """

    precision: float = 0.02
    seeds: int = 3
    most: int = 20
    band: bool = True
    most_requests: int = 50_000


@dataclass(frozen=True)
class Capacity:
    """The answer. load: the highest that met the SLO, None if none did. above: the lowest that missed it, None if none.

    precise: they are as close as asked. at, missed: the runs there, `missed` to its end, so that it says which limits
    are over and by how much. probes: of this search. by_seed: what this and other seeds gave. slow, fast: the capacity
    with all times longer and shorter by `band`; None where not asked for, or where no load met the SLO. simulations: of
    all searches together.
    """

    axis: LoadAxis
    question: Question
    load: float | None
    above: float | None
    precise: bool
    at: Probe | None
    missed: Probe | None
    probes: tuple[Probe, ...]
    by_seed: tuple[float, ...] = ()
    slow: float | None = None
    fast: float | None = None
    band: AccuracyBand | None = None
    simulations: int = 0

    @property
    def binding(self) -> LimitValue | None:
        """The limit that is over first; None if the ceiling passed, or if only the queue grows."""
        if self.missed is None or self.missed.verdict.limits[0].met:
            return None
        return self.missed.verdict.limits[0]

    @property
    def interval(self) -> tuple[float, float] | None:
        """(low, high) around `load` from seeds and the model's error, each independent; None if no load met the SLO."""
        if self.load is None:
            return None
        seeds = seed_half_width(self.by_seed)
        below = 0.0 if self.slow is None else 1 - min(self.slow / self.load, 1.0)
        beyond = 0.0 if self.fast is None else max(self.fast / self.load, 1.0) - 1
        return (
            self.load * max(1 - math.hypot(seeds, below), 0.0),
            self.load * (1 + math.hypot(seeds, beyond)),
        )

    @property
    def requests(self) -> int:
        """Of each simulation."""
        return self.probes[-1].requests


def seed_half_width(by_seed: Sequence[float]) -> float:
    """Half a 95 % interval of the mean over seeds, as a share of it; 0 for fewer than two."""
    if len(by_seed) < 2:
        return 0.0
    values = np.asarray(by_seed)
    return float(student_t(len(by_seed) - 1) * values.std(ddof=1) / math.sqrt(len(by_seed)) / values.mean())


def find_capacity(
    parameters: SimulationParameters,
    slo: Slo,
    options: CapacityOptions | None = None,
    *,
    attainment: float = 0.99,
    per_cohort: bool = False,
    guess: float | None = None,
    slower: float = 1.0,
    progress: Progress | None = None,
) -> Capacity:
    """Search the highest load of `parameters` that meets `slo`.

    All simulations of a search draw the same requests in the same pattern of arrivals, only faster or slower. guess: a
    load to begin at, from a search alike. slower: factor by which every time is longer than predicted. progress: called
    with the number of simulations so far. Raises ConfigError for traffic without a load to turn, DoesNotFitError if the
    model does not fit.
    """
    options = options or CapacityOptions()
    return _Search(parameters, slo, options, attainment, per_cohort, slower, progress).answer(guess)


class _Search:
    def __init__(
        self,
        parameters: SimulationParameters,
        slo: Slo,
        options: CapacityOptions,
        attainment: float,
        per_cohort: bool,
        slower: float,
        progress: Progress | None,
    ) -> None:
        if per_cohort and parameters.cohorts is None:
            hint = "Such as cohorts: {by: prompt_tokens, edges: [512, 4096]}"
            raise ConfigError("is missing: per cohort, but there are none", key="cohorts", hint=hint)
        self._parameters, self._options, self._progress = parameters, options, progress
        self._axis = load_axis(parameters)
        self._stretch = slower
        self._question = Question(slo, attainment, per_cohort, self._axis.steady).slower(slower, slower)
        self._simulations = 0
        workload = draw_workload(parameters.workload, np.random.SeedSequence(parameters.seed))
        rate, at_once = guess_load(parameters, workload, slo)
        self._guess = at_once if self._axis.whole else rate
        needed = needed_requests(slo, attainment) * self._axis.burst_factor
        if per_cohort:
            needed /= smallest_cohort(parameters, workload)
        self._requests = min(math.ceil(max(needed, _TURNOVERS * at_once)), options.most_requests)

    def answer(self, guess: float | None) -> Capacity:
        prober, found = self._first_search(guess or self._guess)
        load = found.passed
        capacity = Capacity(
            axis=self._axis,
            question=self._question,
            load=load,
            above=found.failed,
            precise=found.precise,
            at=next((probe for probe in reversed(prober.probes) if probe.load == load), None),
            missed=None if found.failed is None else self._to_the_end(prober, found.failed),
            probes=tuple(prober.probes),
        )
        if load is not None:
            capacity = replace(capacity, by_seed=(load, *self._other_seeds(load)))
        if load is not None and self._options.band:
            band = accuracy_band(self._parameters, "light" if capacity.at is None else capacity.at.regime)
            slow = self._with_error(load, 1 + band.tpot, 1 + band.ttft)
            fast = self._with_error(load, 1 / (1 + band.tpot), 1 / (1 + band.ttft))
            capacity = replace(capacity, band=band, slow=slow, fast=fast)
        return replace(capacity, simulations=self._simulations)

    def _first_search(self, start: float) -> tuple[Prober, Found]:
        """With more requests, if so many turn out to be at once that the run did little more than fill up."""
        while True:
            prober = self._prober()
            found = search(self._counted(prober), start, self._rules(start))
            at_once = max((probe.in_system for probe in prober.probes if probe.load == found.passed), default=0.0)
            wanted = min(math.ceil(_TURNOVERS * at_once), self._options.most_requests)
            if found.passed is None or wanted <= self._requests or self._axis.most_requests is not None:
                return prober, found
            self._requests, start = math.ceil(wanted * 1.2), found.passed

    def _rules(self, start: float) -> SearchRules:
        floor, ceiling = start * _FLOOR_SHARE, start * _CEILING_SHARE
        if self._axis.whole:
            floor, ceiling = 1.0, float(math.ceil(ceiling))
        options = self._options
        return SearchRules(options.precision, floor, ceiling, options.most, self._axis.whole)

    def _other_seeds(self, load: float) -> list[float]:
        found = []
        for seed in range(1, self._options.seeds):
            prober = self._prober()
            prober.parameters = replace(self._parameters, seed=self._parameters.seed + seed)
            found.append(self._near(prober, load))
        return [capacity for capacity in found if capacity is not None]

    def _with_error(self, load: float, tpot: float, ttft: float) -> float | None:
        """The capacity if all times are longer by the factor `tpot`, and TTFT by `ttft`: in simulated seconds, requests
        come faster and limits are tighter by that.
        """
        prober = self._prober()
        prober.stretch, prober.question = self._stretch * tpot, self._question.slower(tpot, ttft)
        return self._near(prober, load / tpot)

    def _near(self, prober: Prober, load: float) -> float | None:
        """The capacity, expected near `load`."""
        rules = replace(self._rules(load), first_step=1 + 2 * self._options.precision)
        return search(self._counted(prober), load, rules).passed

    def _prober(self) -> Prober:
        return Prober(self._parameters, self._axis, self._question, self._requests, self._stretch)

    def _counted(self, prober: Prober) -> Callable[[float], Attempt]:
        def attempt(load: float) -> Attempt:
            self._count()
            return prober(load)

        return attempt

    def _to_the_end(self, prober: Prober, load: float) -> Probe:
        self._count()
        probe, _ = prober.run(load, to_the_end=True)
        return probe

    def _count(self) -> None:
        self._simulations += 1
        if self._progress is not None:
            self._progress(self._simulations)
