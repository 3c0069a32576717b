"""What a candidate is also tried with: other engine settings (knobs), and the questions of the sensitivity table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from servecast.hardware.errors import ConfigError, DoesNotFitError
from servecast.model.arrivals import BatchArrivals, ConstantArrivals, GammaArrivals, PoissonArrivals
from servecast.model.lengths import EmpiricalLengths
from servecast.model.simulation import SimulationParameters
from servecast.model.slo import Slo
from servecast.model.workload import draw_workload
from servecast.sweeps.capacity.capacity import Capacity, CapacityOptions, find_capacity
from servecast.sweeps.capacity.prober import Prober

LOAD_FACTOR, OUTPUT_FACTOR, SLOW_FACTOR, BURST_CV = 1.2, 1.3, 1.1, 2.0
# Names of the sensitivity table's questions that need a search of their own.
SLOW, OUTPUTS, BURSTS = "model_slow", "outputs_longer", "bursts"

Settings = Mapping[str, int]


@dataclass(frozen=True)
class KnobTrial:
    """One choice of engine settings. capacity: what it carries, None if it is no better than the best before it, or
    cannot run (then `problem` says why).
    """

    settings: Settings
    capacity: float | None
    problem: str | None = None


def best_knobs(
    parameters: SimulationParameters,
    slo: Slo,
    knobs: Mapping[str, Sequence[int]],
    options: CapacityOptions,
    attainment: float,
) -> tuple[SimulationParameters, list[KnobTrial], float | None]:
    """`parameters` with the settings that carry most, all that was tried, and the best capacity.

    One knob after the other, each at the best of those before it. A choice is better if it still meets the SLO at a
    load higher by twice the precision; most others are told by this one simulation. The first trial is the choice
    given.
    """
    quick = replace(options, seeds=1, band=False)
    best = parameters
    first = find_capacity(best, slo, quick, attainment=attainment)
    trials = [KnobTrial(_settings(best, knobs), first.load)]
    if first.load is None:
        return best, trials, None
    load = first.load
    for knob, values in knobs.items():
        for value in values:
            if value == getattr(best.scheduler, knob):
                continue
            changed = _with(best, {knob: value})
            trial = _try(changed, _settings(changed, knobs), first, slo, quick, attainment, load)
            trials.append(trial)
            if trial.capacity is not None and trial.capacity > load:
                best, load = changed, trial.capacity
    return best, trials, load


def _try(
    parameters: SimulationParameters,
    settings: Settings,
    like: Capacity,
    slo: Slo,
    options: CapacityOptions,
    attainment: float,
    load: float,
) -> KnobTrial:
    scheduler = parameters.scheduler
    if scheduler.max_num_batched_tokens < scheduler.max_num_seqs:
        return KnobTrial(settings, None, "the token budget is below max_num_seqs")
    better = load * (1 + 2 * options.precision)
    if like.axis.whole:
        better = max(round(better), load + 1)
    try:
        probe = Prober(parameters, like.axis, like.question, like.requests).probe(better)
        if not probe.verdict.met:
            return KnobTrial(settings, None)
        return KnobTrial(settings, find_capacity(parameters, slo, options, attainment=attainment, guess=better).load)
    except (ConfigError, DoesNotFitError) as error:
        return KnobTrial(settings, None, str(error))


def _settings(parameters: SimulationParameters, knobs: Mapping[str, Sequence[int]]) -> Settings:
    return {knob: getattr(parameters.scheduler, knob) for knob in knobs}


def _with(parameters: SimulationParameters, settings: Settings) -> SimulationParameters:
    # mypy cannot know that the knobs are whole-number fields of the scheduler.
    scheduler = replace(parameters.scheduler, **settings)  # type: ignore[arg-type]
    return replace(parameters, scheduler=scheduler)


def sensitivities(
    parameters: SimulationParameters, slo: Slo, capacity: Capacity, options: CapacityOptions, attainment: float
) -> dict[str, float | None]:
    """The capacity under each question that changes it; None where no load meets the SLO. A question that makes no
    sense for the traffic (bursts of a trace) is left out.
    """
    quick = replace(options, seeds=1, band=False, most_requests=2 * capacity.requests)
    base = capacity.load

    def search(changed: SimulationParameters, guess: float, slower: float = 1.0) -> float | None:
        start = None if base is None else guess
        return find_capacity(changed, slo, quick, attainment=attainment, guess=start, slower=slower).load

    base = base or 0.0
    found = {SLOW: search(parameters, base / SLOW_FACTOR, SLOW_FACTOR)}
    if longer := _longer_outputs(parameters, 2 * capacity.requests):
        found[OUTPUTS] = search(longer, base / OUTPUT_FACTOR)
    if bursty := _bursts(parameters):
        found[BURSTS] = search(bursty, base * 0.9)
    return found


def _longer_outputs(parameters: SimulationParameters, count: int) -> SimulationParameters | None:
    """The same requests with longer outputs; None for prompts with recorded contents, whose lengths are theirs."""
    workload = parameters.workload
    if workload.identity.contents is not None:
        return None
    if isinstance(workload.lengths, EmpiricalLengths):
        count = len(workload.lengths)
    # Lengths have a random stream of their own, so any arrivals will do.
    drawn = draw_workload(
        replace(workload, arrivals=BatchArrivals(), num_requests=count), np.random.SeedSequence(parameters.seed)
    )
    outputs = np.maximum(np.rint(drawn.output_tokens * OUTPUT_FACTOR).astype(np.int64), 1)
    return replace(parameters, workload=replace(workload, lengths=EmpiricalLengths(drawn.prompt_tokens, outputs)))


def _bursts(parameters: SimulationParameters) -> SimulationParameters | None:
    arrivals = parameters.workload.arrivals
    if not isinstance(arrivals, PoissonArrivals | ConstantArrivals | GammaArrivals):
        return None
    bursty = GammaArrivals.from_cv(arrivals.request_rate, BURST_CV)
    return replace(parameters, workload=replace(parameters.workload, arrivals=bursty))
