"""The load of a simulation as one number that a search can turn: requests/s, or clients in a closed loop."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from servecast.hardware.errors import ConfigError
from servecast.model.arrivals import (
    Arrivals,
    BatchArrivals,
    ClosedLoop,
    ConstantArrivals,
    GammaArrivals,
    PoissonArrivals,
    ScheduleArrivals,
    TraceArrivals,
)
from servecast.model.simulation import SimulationParameters
from servecast.model.workload import draw_workload

_MOST_FOR_BURSTS = 10.0


@dataclass(frozen=True)
class LoadAxis:
    """What is turned. nominal: the scenario's own value. whole: only whole numbers make sense.

    steady: the rate is the same all the time, so that a queue that grows means that more comes than is served.
    most_requests: that there are, None for no limit. burst_factor: how many times the requests of independent arrivals
    it takes to see as many bursts.
    """

    name: str
    unit: str
    nominal: float
    whole: bool
    steady: bool
    most_requests: int | None
    burst_factor: float = 1.0


def load_axis(parameters: SimulationParameters) -> LoadAxis:
    """The axis of the workload. Raises ConfigError for one without a load to turn."""
    workload = parameters.workload
    arrivals = workload.arrivals
    recorded = isinstance(arrivals, TraceArrivals)
    most = workload.request_count if recorded else None
    if isinstance(arrivals, ClosedLoop):
        return LoadAxis("concurrency", "requests at once", arrivals.concurrency, True, True, most)
    if isinstance(arrivals, BatchArrivals):
        hint = "Give it a rate, such as arrivals: {process: poisson, request_rate: 1}"
        raise ConfigError("batch sends everything at once: no load to search", key="workload.arrivals", hint=hint)
    steady = isinstance(arrivals, PoissonArrivals | GammaArrivals | ConstantArrivals)
    # The count of gamma arrivals in a long time varies by 1/burstiness as much as that of Poisson arrivals.
    bursts = 1 / arrivals.burstiness if isinstance(arrivals, GammaArrivals) else 1.0
    factor = min(max(bursts, 1.0), _MOST_FOR_BURSTS)
    return LoadAxis("request_rate", "req/s", _mean_rate(parameters), False, steady, most, factor)


def _mean_rate(parameters: SimulationParameters) -> float:
    arrivals = parameters.workload.arrivals
    if isinstance(arrivals, PoissonArrivals | GammaArrivals | ConstantArrivals) and arrivals.request_rate < math.inf:
        return arrivals.request_rate
    rate = draw_workload(parameters.workload, np.random.SeedSequence(parameters.seed)).request_rate
    if rate is None or not 0 < rate < math.inf:
        raise ConfigError("have no rate to search: all requests come at once", key="workload.arrivals")
    return rate


def at_load(parameters: SimulationParameters, axis: LoadAxis, load: float, num_requests: int) -> SimulationParameters:
    """The same simulation at `load`, with `num_requests`, as far as there are so many. Arrivals and lengths keep their
    random numbers: the same requests come in the same pattern, faster or slower.
    """
    workload = parameters.workload
    if axis.most_requests is not None:
        num_requests = min(num_requests, axis.most_requests)
    elif isinstance(workload.arrivals, ScheduleArrivals):
        # The same span of time, such as a day, whatever the rate.
        num_requests = max(1, round(workload.request_count * load / axis.nominal))
    arrivals = _scaled(workload.arrivals, load, load / axis.nominal)
    return replace(parameters, workload=replace(workload, arrivals=arrivals, num_requests=num_requests))


def _scaled(arrivals: Arrivals, load: float, factor: float) -> Arrivals:
    match arrivals:
        case ClosedLoop():
            return replace(arrivals, concurrency=round(load))
        case PoissonArrivals() | GammaArrivals() | ConstantArrivals():
            return replace(arrivals, request_rate=load)
        case TraceArrivals():
            return replace(arrivals, rate_scale=arrivals.rate_scale * factor)
        case ScheduleArrivals():
            return replace(arrivals, request_rates=tuple(rate * factor for rate in arrivals.request_rates))
    raise AssertionError(arrivals)
