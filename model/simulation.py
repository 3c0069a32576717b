"""One simulation: parts put together from parameters, run to the end, and what comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import simpy
from numpy.typing import NDArray
from simpy.core import StopSimulation

from servecast.hardware.errors import DoesNotFitError
from servecast.model.arrivals import ClosedLoop
from servecast.model.checks import require
from servecast.model.engine_process import EngineProcess
from servecast.model.fit_advice import FitQuestion, changes_that_fit
from servecast.model.forward import ForwardPass
from servecast.model.host_link import HostLink
from servecast.model.interruptions import interruption_columns
from servecast.model.ledger import RESOURCES
from servecast.model.memory import MemoryPlan
from servecast.model.pipeline import Pipeline, hand_overs
from servecast.model.pipelined_replica import PipelinedReplica
from servecast.model.records import RequestRows, StepRows
from servecast.model.replica import Replica
from servecast.model.replica_parts import (
    forward_passes,
    link_parameters,
    new_scheduler,
    plan_replica,
    preemption_costs,
)
from servecast.model.router import ROUTERS
from servecast.model.simulation_parameters import SimulationParameters, without_admission
from servecast.model.traffic import start_traffic
from servecast.model.weight_formats import check_format
from servecast.model.workload import Workload, draw_workload

# Also what those need who ask about a simulation without running it.
__all__ = [
    "Progress",
    "SimulationParameters",
    "SimulationResult",
    "Stop",
    "forward_passes",
    "plan_replica",
    "preemption_costs",
    "run_simulation",
    "without_admission",
]

Progress = Callable[[int, int], None]
Stop = Callable[[RequestRows], bool]


@dataclass(frozen=True, eq=False)
class SimulationResult:
    """What happened, as flat columns (seconds of simulated time; see records.py), before any statistics.

    pool_blocks: of one replica, as its scheduler counts them (all layers, or grouped_pool.py). reasons: why requests
    were rejected, by id. resumed_gaps_s: gaps between tokens over a preemption.
    seconds_by_resource: step time by what limited it, all replicas together. swap_bytes: copied in and out, per GPU.
    prefix_tokens, prefix_hit_tokens: prompt tokens looked up in the prefix cache, and found. recompute_seconds:
    estimate of the time that recomputed tokens took. interruptions: preemptions by column, see interruptions.py.
    thrash_events: (replica, time in s, ratio), see thrash.py. stalled, livelocked: ids of requests that got nowhere for
    a while, see progress.py.
    """

    parameters: SimulationParameters
    memory: MemoryPlan
    pool_blocks: int
    workload: Workload
    requests: Mapping[str, NDArray[Any]]
    steps: Mapping[str, NDArray[np.float64]]
    reasons: Mapping[int, str]
    resumed_gaps_s: NDArray[np.float64]
    seconds_by_resource: Mapping[str, float]
    swap_bytes: float
    swap_fallbacks: int
    prefix_tokens: int
    prefix_hit_tokens: int
    recompute_seconds: float
    interruptions: Mapping[str, NDArray[Any]]
    thrash_events: tuple[tuple[int, float, float], ...]
    stalled: tuple[int, ...]
    livelocked: tuple[int, ...]


def run_simulation(
    parameters: SimulationParameters, progress: Progress | None = None, stop: Stop | None = None
) -> SimulationResult:
    """Simulate until nothing happens any more. `progress` is called now and then with (requests ended, requests).

    stop: asked as often, with the rows so far; the simulation ends when it says True, and requests that are under way
    or did not come yet count as unfinished.

    Raises DoesNotFitError if the model does not fit the GPUs, ConfigError for a layout that cannot be run.
    """
    _check_one_server(parameters)
    check_format(parameters.architecture, parameters.layout.dtype, parameters.gpu)
    memory = plan_replica(parameters)
    if not memory.fits:
        raise DoesNotFitError(_does_not_fit(parameters, memory))
    workload = draw_workload(parameters.workload, np.random.SeedSequence(parameters.seed))
    env = simpy.Environment()
    rows, steps = _watched_rows(env, len(workload), progress, stop), StepRows()
    stages = forward_passes(parameters)
    fleet = [_replica(env, i, parameters, memory, stages, rows, steps) for i in range(parameters.replicas)]
    router = ROUTERS[parameters.router]()
    server_s = parameters.engine.host.server_s
    start_traffic(env, workload, rows, lambda request: router.choose(request, fleet).submit(request), server_s)
    env.run()
    for replica in fleet:
        for request in replica.leftovers():
            rows.leave(request, replica.index)
    return _result(parameters, memory, workload, rows, steps, fleet)


def _watched_rows(env: simpy.Environment, size: int, progress: Progress | None, stop: Stop | None) -> RequestRows:
    """Rows that report to `progress`, and end the simulation of `env` when `stop` says so."""
    if stop is None:
        return RequestRows(size, progress)
    halt = env.event()
    halt.callbacks.append(StopSimulation.callback)

    def report(ended: int, total: int) -> None:
        if progress is not None:
            progress(ended, total)
        if not halt.triggered and stop(rows):
            halt.succeed()

    rows = RequestRows(size, report)
    return rows


def _check_one_server(parameters: SimulationParameters) -> None:
    gpus, most = parameters.layout.tensor_parallel_size, parameters.gpu.server_gpus
    problem = (
        f"{gpus} GPUs, but a server of {parameters.gpu.key} has {most}; only pipeline stages can be on several servers"
    )
    require(gpus <= most, "replica.tensor_parallel_size", problem)


def _does_not_fit(parameters: SimulationParameters, memory: MemoryPlan) -> str:
    layout = parameters.layout
    gpus = layout.tensor_parallel_size * layout.pipeline_parallel_size
    return (
        f"{parameters.architecture.key} ({layout.dtype}) does not fit {gpus} x {parameters.gpu.key}: "
        f"{memory.short_gib:.2f} GiB short on each GPU (weights {memory.weights_gib:.2f}, activation "
        f"{memory.activation_gib:.2f}, non-torch {memory.non_torch_gib:.2f}, of {memory.requested_gib:.2f} GiB "
        f"requested, with one request of {memory.max_model_len} tokens)" + _advice(parameters)
    )


def _advice(parameters: SimulationParameters) -> str:
    """The smallest changes with which it would fit, as the end of a message."""
    settings = parameters.scheduler
    question = FitQuestion(
        parameters.architecture,
        parameters.gpu,
        parameters.engine.memory,
        parameters.layout,
        settings.max_num_batched_tokens,
        settings.max_num_seqs,
    )
    changes = [str(change) for change in changes_that_fit(question)]
    return f". It fits with {', or '.join(changes)}" if changes else ""


def _replica(
    env: simpy.Environment,
    index: int,
    parameters: SimulationParameters,
    memory: MemoryPlan,
    stages: Sequence[ForwardPass],
    rows: RequestRows,
    steps: StepRows,
) -> EngineProcess:
    link = link_parameters(parameters, memory)
    scheduler = new_scheduler(parameters, memory, stages, link)
    host_link, swap_overlap = HostLink(env, link), parameters.scheduler.preemption.swap_overlap
    if len(stages) > 1:
        between = hand_overs(parameters.layout, parameters.gpu, parameters.architecture.hidden_size)
        host = parameters.engine.host
        host = replace(host, step_s=host.step_seconds(parameters.layout.tensor_parallel_size))
        pipeline = Pipeline(stages, between, host)
        return PipelinedReplica(
            env,
            index,
            scheduler=scheduler,
            pipeline=pipeline,
            host_link=host_link,
            swap_overlap=swap_overlap,
            requests=rows,
            steps=steps,
        )
    closed_loop = isinstance(parameters.workload.arrivals, ClosedLoop)  # its clients wait for finishes
    return Replica(
        env,
        index,
        scheduler=scheduler,
        forward=stages[0],
        host_link=host_link,
        swap_overlap=swap_overlap,
        async_scheduling=parameters.engine.async_scheduling,
        coast=parameters.coast,
        run_ahead=parameters.coast and parameters.replicas == 1 and not closed_loop,
        requests=rows,
        steps=steps,
    )


def _result(
    parameters: SimulationParameters,
    memory: MemoryPlan,
    workload: Workload,
    rows: RequestRows,
    steps: StepRows,
    fleet: Sequence[EngineProcess],
) -> SimulationResult:
    seconds = dict.fromkeys(RESOURCES, 0.0)
    for replica in fleet:
        for resource, value in replica.ledger.seconds_by_resource().items():
            seconds[resource] += value
    return SimulationResult(
        parameters=parameters,
        memory=memory,
        pool_blocks=fleet[0].scheduler.pool.num_blocks,
        workload=workload,
        requests=rows.columns(),
        steps=steps.columns(),
        reasons=rows.reasons,
        resumed_gaps_s=np.array([gap for replica in fleet for gap in replica.scheduler.gaps_s]),
        seconds_by_resource=seconds,
        swap_bytes=sum(replica.host_link.bytes_moved for replica in fleet),
        swap_fallbacks=sum(replica.scheduler.host.fallbacks for replica in fleet),
        prefix_tokens=sum(replica.scheduler.prefix_tokens for replica in fleet),
        prefix_hit_tokens=sum(replica.scheduler.prefix_hit_tokens for replica in fleet),
        recompute_seconds=sum(replica.ledger.recompute_s for replica in fleet),
        interruptions=interruption_columns([replica.scheduler.interruptions for replica in fleet]),
        thrash_events=tuple(
            (replica.index, *event) for replica in fleet for event in replica.scheduler.progress.thrash.events
        ),
        stalled=tuple(id for replica in fleet for id in replica.scheduler.progress.stalled),
        livelocked=tuple(id for replica in fleet for id in replica.scheduler.progress.livelocked),
    )
