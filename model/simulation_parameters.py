"""Everything that a simulation depends on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from servecast.hardware.engines import EngineProfile
from servecast.hardware.gpus import Gpu
from servecast.model.admission import AdmissionParameters
from servecast.model.architecture import Architecture
from servecast.model.cohorts import CohortParameters
from servecast.model.layout import ReplicaLayout
from servecast.model.scheduler_parameters import SchedulerParameters
from servecast.model.slo import Slo
from servecast.model.workload import WorkloadParameters


@dataclass(frozen=True)
class SimulationParameters:
    """Everything that a simulation depends on. coast: whether runs of equal decode steps may be one event."""

    architecture: Architecture
    gpu: Gpu
    engine: EngineProfile
    layout: ReplicaLayout
    scheduler: SchedulerParameters
    workload: WorkloadParameters
    replicas: int = 1
    router: str = "round_robin"
    slo: Slo | None = None
    cohorts: CohortParameters | None = None
    seed: int = 0
    coast: bool = True


def without_admission(parameters: SimulationParameters) -> SimulationParameters:
    """The same with every request let in."""
    return replace(parameters, scheduler=replace(parameters.scheduler, admission=AdmissionParameters()))
