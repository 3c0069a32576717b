"""From a validated scenario to the parameters of its simulation: names looked up, files read, defaults of the model
filled in.
"""

from __future__ import annotations

import importlib
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from servecast.configs.architectures import load_architecture
from servecast.configs.engine_sections import SchedulerSection
from servecast.configs.origin import Origin
from servecast.configs.scenario import Scenario, looks_like_path
from servecast.configs.workloads import build_workload
from servecast.hardware.catalogue import WANTED
from servecast.hardware.engines import EngineProfile, load_engine
from servecast.hardware.errors import ConfigError
from servecast.hardware.gpus import load_gpu
from servecast.model.admission import AdmissionParameters
from servecast.model.cohorts import CohortParameters
from servecast.model.layout import ReplicaLayout, check_layout
from servecast.model.policies import Key, PolicyParameters
from servecast.model.preemption import PreemptionParameters
from servecast.model.scheduler_parameters import SchedulerParameters
from servecast.model.simulation import SimulationParameters

T = TypeVar("T")


def build_simulation(scenario: Scenario) -> SimulationParameters:
    """Everything that the simulation of `scenario` depends on. Raises ConfigError with file, line and key."""
    origin = scenario.origin
    architecture = _looked_up(origin, "model", scenario.model, load_architecture)
    layout = ReplicaLayout(**scenario.replica.model_dump())
    with _located(origin, "replica"):
        check_layout(architecture, layout)
    engine = _looked_up(origin, "engine", scenario.engine, load_engine)
    return SimulationParameters(
        architecture=architecture,
        gpu=_looked_up(origin, "gpu", scenario.gpu, load_gpu),
        engine=engine,
        layout=layout,
        scheduler=_scheduler(scenario, engine),
        workload=build_workload(scenario),
        replicas=scenario.fleet.replicas,
        router=scenario.fleet.router,
        slo=scenario.slo_limits,
        cohorts=None if scenario.cohorts is None else CohortParameters(scenario.cohorts.by, scenario.cohorts.edges),
        seed=scenario.seed,
        coast=scenario.coast,
    )


def check_names(scenario: Scenario) -> None:
    """Raise ConfigError, with file, line and key, if the model, the GPU or the engine of `scenario` is unknown."""
    origin = scenario.origin
    _looked_up(origin, "model", scenario.model, load_architecture)
    _looked_up(origin, "gpu", scenario.gpu, load_gpu)
    _looked_up(origin, "engine", scenario.engine, load_engine)


def _scheduler(scenario: Scenario, engine: EngineProfile) -> SchedulerParameters:
    section = scenario.scheduler
    reserve = section.scheduler_reserve_full_isl
    slo = {} if scenario.slo_limits is None else scenario.slo_limits.request_limits_s
    return SchedulerParameters(
        kind=section.kind,
        max_num_batched_tokens=section.max_num_batched_tokens,
        max_num_seqs=section.max_num_seqs,
        enable_chunked_prefill=section.enable_chunked_prefill,
        enable_prefix_caching=section.enable_prefix_caching,
        long_prefill_token_threshold=section.long_prefill_token_threshold,
        max_num_partial_prefills=section.max_num_partial_prefills,
        max_long_partial_prefills=section.max_long_partial_prefills,
        backpressure=section.backpressure,
        policy=_policy(scenario),
        preemption=_preemption(section),
        admission=_admission(section.admission, slo.get("ttft", math.inf)),
        watermark=section.watermark,
        scheduler_reserve_full_isl=engine.scheduler_reserve_full_isl if reserve is None else reserve,
        on_unschedulable=section.on_unschedulable,
    )


def _preemption(section: SchedulerSection) -> PreemptionParameters:
    return PreemptionParameters(
        mode=section.preemption,
        victim=section.preemption_victim,
        reinsert=section.preemption_reinsert,
        swap_space_gib=section.swap_space,
        swap_copy_s=section.swap_copy_us * 1e-6,
        swap_overlap=section.swap_overlap,
    )


def _admission(rule: str | dict[str, int], ttft_s: float) -> AdmissionParameters:
    if isinstance(rule, dict):
        return AdmissionParameters("max_queue", max_queue=rule["max_queue"])
    return AdmissionParameters(rule, ttft_s=ttft_s)


def _policy(scenario: Scenario) -> PolicyParameters:
    section = scenario.scheduler
    key = None
    if ":" in section.policy:
        with _located(scenario.origin, "scheduler.policy"):
            beside = () if scenario.origin.file is None else (scenario.origin.file.resolve().parent,)
            key = load_policy(section.policy, (Path.cwd(), *beside))
    return PolicyParameters(section.policy, key, section.aging_tokens_per_s)


def load_policy(path: str, folders: Sequence[Path] = ()) -> Key:
    """The method `key` of an object of the class that `path` (package.module:Class) names. Raises ConfigError.

    folders: where modules are looked for before Python's own path.
    """
    module_name, class_name = path.split(":")
    before = list(sys.path)
    sys.path[:0] = map(str, folders)
    try:
        policy = getattr(importlib.import_module(module_name), class_name)()
    except Exception as error:
        # A module of the user's may raise anything.
        hint = "It must name a class without arguments, in a module of this folder, the scenario's, or Python's path"
        raise ConfigError(f"cannot load {path!r}: {error}", hint=hint) from None
    finally:
        sys.path[:] = before
    key: Key | None = getattr(policy, "key", None)
    if not callable(key):
        raise ConfigError(f"{path!r} has no method key(request)")
    return key


def _looked_up(origin: Origin, key: str, value: str, load: Callable[[str], T]) -> T:
    """What `load` makes of a catalogue key, or of a path that is relative to the scenario file."""
    if not looks_like_path(value):
        with _located(origin, key):
            return load(value)
    path = origin.resolve(key, value)
    if not path.exists():
        raise origin.error(key, f"no such file: {path}", WANTED[key])
    with _located(origin, key):
        return load(str(path))


@contextmanager
def _located(origin: Origin, section: str) -> Iterator[None]:
    """Give a ConfigError that knows no file the place of `section` in the scenario."""
    try:
        yield
    except ConfigError as error:
        raise origin.locate(error, section) from None
