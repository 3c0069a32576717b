"""Simulates measured runs, in parallel, and notes what came out and how the load was."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from servecast.configs.accuracy import situation_of
from servecast.configs.build import build_simulation
from servecast.configs.load import scenario_from
from servecast.configs.measured import METRICS, MeasuredRun
from servecast.hardware.accuracy import Situation
from servecast.hardware.engines import EngineProfile
from servecast.hardware.engines.variants import ideal, unmeasured
from servecast.hardware.errors import ConfigError, DoesNotFitError
from servecast.hardware.gpus import Gpu
from servecast.model.metrics import summarise
from servecast.model.regime import regime
from servecast.model.simulation import SimulationParameters, run_simulation
from servecast.sweeps.backends import Backend
from servecast.sweeps.runner import Outcome, Progress, Task, run_tasks

Variant = Callable[[EngineProfile, Gpu], EngineProfile]


def calibrated(profile: EngineProfile, _gpu: Gpu) -> EngineProfile:
    """The profile as it is."""
    return profile


MODEL_ONLY: dict[str, Variant] = {"predicted": calibrated}
# The model beside the datasheet roofline and what would be predicted if no GPU had been measured.
COMPARED: dict[str, Variant] = {**MODEL_ONLY, "roofline": ideal, "unmeasured": unmeasured}


@dataclass(frozen=True)
class Prediction:
    """figures: variant -> name of METRICS -> value. problem: why there is none.

    gpu, engine, model: keys of the catalogues, "" where the run could not be built. situation: what the run was like,
    with the load by the model's own simulation; None where it could not be built.
    """

    run: MeasuredRun
    figures: Mapping[str, Mapping[str, float]]
    problem: str | None = None
    gpu: str = ""
    engine: str = ""
    model: str = ""
    dtype: str = ""
    layout: str = ""
    situation: Situation | None = None


def predict(
    runs: Sequence[MeasuredRun],
    variants: Mapping[str, Variant] = MODEL_ONLY,
    *,
    jobs: int = 1,
    progress: Progress | None = None,
) -> list[Prediction]:
    """One prediction a run, in order. variants: name -> what it makes of the engine profile; the first one is judged.

    jobs: processes, -1 for one a core. progress: called with (done, runs).

    A run that cannot be simulated has a `problem`; nothing is raised for it.
    """
    found: dict[str, Prediction] = {}

    def keep(outcome: Outcome[Prediction]) -> None:
        found[outcome.key] = outcome.value or Prediction(runs[int(outcome.key)], {}, outcome.message)

    tasks = [Task(str(number), (run, variants)) for number, run in enumerate(runs)]
    backend = Backend(jobs=None if jobs == -1 else jobs)
    run_tasks(tasks, _predicted, on_done=keep, backend=backend, progress=progress)
    return [found[task.key] for task in tasks]


def _predicted(content: tuple[MeasuredRun, Mapping[str, Variant]]) -> Prediction:
    return predict_run(*content)


def predict_run(run: MeasuredRun, variants: Mapping[str, Variant]) -> Prediction:
    """The prediction for one run."""
    if run.problem is not None:
        return Prediction(run, {}, run.problem)
    try:
        parameters = _parameters(run)
        summaries = {name: _summary(parameters, variant) for name, variant in variants.items()}
    except (ConfigError, DoesNotFitError) as error:
        return Prediction(run, {}, _reason(error))
    first = next(iter(summaries.values()))
    named = _named(run, parameters, regime(first) if first["completed"] else "")
    problem = next(filter(None, map(_incomplete, summaries.values())), None)
    if problem is not None:
        return replace(named, problem=problem)
    figures = {name: _figures(summary, run) for name, summary in summaries.items()}
    return replace(named, figures=figures)


def _parameters(run: MeasuredRun) -> SimulationParameters:
    parameters = build_simulation(scenario_from(run.settings))
    if run.lengths is None:
        return parameters
    return replace(parameters, workload=replace(parameters.workload, lengths=run.lengths))


def _summary(parameters: SimulationParameters, variant: Variant) -> dict[str, Any]:
    return summarise(run_simulation(replace(parameters, engine=variant(parameters.engine, parameters.gpu))))


def _incomplete(summary: Mapping[str, Any]) -> str | None:
    """Why a simulation that lost requests says nothing about a run that answered all of them."""
    if summary["failed"] == 0:
        return None
    total = summary["failed"] + summary["completed"]
    reasons = ", ".join(f"{reason} ({count})" for reason, count in summary["rejected"].items()) or "unfinished"
    return f"{summary['failed']} of {total} requests fail in the simulation: {reasons}"


def _figures(summary: Mapping[str, Any], run: MeasuredRun) -> dict[str, float]:
    return {name: summary[METRICS[name]] for name in run.figures if summary[METRICS[name]] is not None}


def _named(run: MeasuredRun, parameters: SimulationParameters, load: str) -> Prediction:
    layout, situation = parameters.layout, situation_of(parameters, load)
    kv = "" if layout.kv_cache_dtype == "auto" else f" kv {layout.kv_cache_dtype}"
    stages = "" if layout.pipeline_parallel_size == 1 else f" pp{layout.pipeline_parallel_size}"
    return Prediction(
        run,
        {},
        gpu=situation.gpu,
        engine=parameters.engine.key,
        model=parameters.architecture.key,
        dtype=situation.dtype + kv,
        layout=f"tp{layout.tensor_parallel_size}{stages}",
        situation=situation,
    )


def _reason(error: ConfigError | DoesNotFitError) -> str:
    """In a line, without the advice."""
    if isinstance(error, ConfigError):
        return f"{error.key}: {error.problem}" if error.key else error.problem
    return str(error).splitlines()[0].split(" (weights")[0]
