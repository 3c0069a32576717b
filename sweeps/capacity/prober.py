"""Runs single simulations of a capacity search, each once."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from servecast.model.metrics import summarise
from servecast.model.regime import regime
from servecast.model.simulation import SimulationParameters, SimulationResult, run_simulation
from servecast.model.workload import draw_workload
from servecast.sweeps.capacity.judge import Question, Verdict, hopeless_stop, in_system, judge
from servecast.sweeps.capacity.load import LoadAxis, at_load
from servecast.sweeps.capacity.search import Attempt

# Figures of a run that are kept, by their names in the summary.
KEPT = (
    "request_throughput",
    "output_throughput",
    "total_token_throughput",
    "p50_ttft_ms",
    "p99_ttft_ms",
    "p50_tpot_ms",
    "p95_tpot_ms",
    "p99_tpot_ms",
    "p50_e2el_ms",
    "p99_e2el_ms",
    "utilization",
    "preemptions",
)


@dataclass(frozen=True)
class Probe:
    """One simulation of a search. load: in the axis's unit. in_system: requests that were there, on average.

    figures: KEPT and `bound_by`, of the whole run; empty for a run that was stopped. regime: of the load, as
    model/regime.py has it.
    """

    load: float
    requests: int
    verdict: Verdict
    in_system: float
    figures: dict[str, Any]
    regime: str


@dataclass
class Prober:
    """Simulates `parameters` at the loads asked for.

    stretch: every simulated second stands for so many real ones: the model's error, see docs/capacity.md. Loads are
    real ones, and `question` is already that of simulated times.
    """

    parameters: SimulationParameters
    axis: LoadAxis
    question: Question
    requests: int
    stretch: float = 1.0
    probes: list[Probe] = field(default_factory=list)

    def __call__(self, load: float) -> Attempt:
        """Simulate at `load`, stopped as soon as it cannot pass any more."""
        probe = self.probe(load)
        return Attempt(load, probe.verdict.met, probe.verdict.ratio)

    def probe(self, load: float) -> Probe:
        probe, _ = self.run(load)
        self.probes.append(probe)
        return probe

    def run(self, load: float, *, to_the_end: bool = False) -> tuple[Probe, SimulationResult]:
        """A probe and the simulation behind it; `to_the_end` also where it cannot pass any more."""
        simulated = load if self.axis.whole else load * self.stretch
        parameters = at_load(self.parameters, self.axis, simulated, self.requests)
        parameters = replace(parameters, slo=self.question.slo)
        workload = draw_workload(parameters.workload, np.random.SeedSequence(parameters.seed))
        stop = hopeless_stop(parameters, workload, self.question)
        result = run_simulation(parameters, stop=None if to_the_end else stop)
        verdict = judge(result, self.question, stopped=stop.stopped)
        summary = {} if stop.stopped else summarise(result)
        probe = Probe(
            load=load,
            requests=len(workload),
            verdict=verdict,
            in_system=float(in_system(result).mean()),
            figures={name: summary[name] for name in (*KEPT, "bound_by")} if summary else {},
            regime=regime(summary) if summary else "overload",
        )
        return probe, result
