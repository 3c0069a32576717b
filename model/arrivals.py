"""When requests arrive. Each class holds the parameters of one process and draws its times.

Open processes have one method, `times(count, rng)`: arrival times in seconds from the start of the run, as
float64, non-decreasing, one for each request. The first request of `PoissonArrivals`, `GammaArrivals`,
`ConstantArrivals` and `ScheduleArrivals` comes after the first gap, not at 0, so that the n-th is expected at
n/rate; `vllm bench serve` sends its requests in the same way. A longer draw begins with the shorter one, and
another rate stretches the same pattern, so two rates or two GPUs are compared under the same randomness.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, Self

import numpy as np
import numpy.typing as npt

from servecast.hardware.errors import ConfigError
from servecast.model.checks import require

Seconds = npt.NDArray[np.float64]


def _require_rate(request_rate: float) -> None:
    require(request_rate > 0, "request_rate", f"must be above 0 requests/s, found {request_rate!r}")


def _running_sum(gaps: Seconds, request_rate: float, exact_rate: bool) -> Seconds:
    """Arrival times from gaps of mean 1; see `PoissonArrivals` for `exact_rate`."""
    times = np.cumsum(gaps)
    if exact_rate and len(times) and times[-1] > 0:
        times *= len(times) / times[-1]
    return times / request_rate


@dataclass(frozen=True)
class PoissonArrivals:
    """Independent exponential gaps. `request_rate` in requests/s; infinity sends everything at once.

    exact_rate: stretch the times so that the last request falls on count/rate. `vllm bench serve` does this
    to get the same throughput from every seed; a true Poisson process, the default, varies by 1/sqrt(count).
    """

    request_rate: float
    exact_rate: bool = False

    def __post_init__(self) -> None:
        _require_rate(self.request_rate)

    def times(self, count: int, rng: np.random.Generator) -> Seconds:
        return _running_sum(rng.standard_exponential(count), self.request_rate, self.exact_rate)


@dataclass(frozen=True)
class GammaArrivals:
    """Gamma-distributed gaps as in `vllm bench serve`: shape `burstiness`, mean 1/request_rate.

    The gaps' coefficient of variation is 1/sqrt(burstiness): below 1 is burstier than Poisson, 1 is Poisson,
    infinity is a constant gap. `exact_rate` as in `PoissonArrivals`.
    """

    request_rate: float
    burstiness: float = 1.0
    exact_rate: bool = False

    def __post_init__(self) -> None:
        _require_rate(self.request_rate)
        require(self.burstiness > 0, "burstiness", f"must be above 0, found {self.burstiness!r}")

    @classmethod
    def from_cv(cls, request_rate: float, cv: float, exact_rate: bool = False) -> Self:
        """The process whose gaps have the coefficient of variation `cv` (standard deviation over mean)."""
        require(cv >= 0, "cv", f"must be 0 or more, found {cv!r}")
        return cls(request_rate, math.inf if cv == 0 else cv**-2, exact_rate)

    def times(self, count: int, rng: np.random.Generator) -> Seconds:
        if math.isinf(self.burstiness):
            return ConstantArrivals(self.request_rate).times(count, rng)
        gaps = rng.standard_gamma(self.burstiness, count) / self.burstiness
        return _running_sum(gaps, self.request_rate, self.exact_rate)


@dataclass(frozen=True)
class ConstantArrivals:
    """One request every 1/request_rate seconds, the first at 1/request_rate."""

    request_rate: float

    def __post_init__(self) -> None:
        _require_rate(self.request_rate)

    def times(self, count: int, _rng: np.random.Generator) -> Seconds:
        return np.arange(1, count + 1, dtype=np.float64) / self.request_rate


@dataclass(frozen=True)
class BatchArrivals:
    """All requests at time 0: offline work."""

    def times(self, count: int, _rng: np.random.Generator) -> Seconds:
        return np.zeros(count)


@dataclass(frozen=True, eq=False)
class TraceArrivals:
    """Recorded arrivals, replayed.

    times_s: seconds, not decreasing. rate_scale: 2.0 replays twice as fast, which doubles the rate.
    """

    times_s: Seconds
    rate_scale: float = 1.0

    def __post_init__(self) -> None:
        require(self.rate_scale > 0, "rate_scale", f"must be above 0, found {self.rate_scale!r}")
        require(bool(np.all(np.diff(self.times_s) >= 0)), "times_s", "must not decrease")

    def __len__(self) -> int:
        return len(self.times_s)

    def times(self, count: int, _rng: np.random.Generator) -> Seconds:
        """The first `count` arrivals. Raises ConfigError if the trace holds fewer."""
        if count > len(self):
            problem = f"asks for {count:,} requests, the trace holds {len(self):,}"
            raise ConfigError(problem, key="num_requests", hint="Leave it out to replay the whole trace")
        return np.asarray(self.times_s[:count], dtype=np.float64) / self.rate_scale


@dataclass(frozen=True)
class ClosedLoop:
    """`concurrency` clients, each with one request at a time. All send their first one at time 0.

    A client's next request follows `think_time_s` after its last one ended. Requests are taken in their drawn
    order by whichever client is free.
    """

    concurrency: int
    think_time_s: float = 0.0

    def __post_init__(self) -> None:
        require(self.concurrency >= 1, "concurrency", f"must be 1 or more, found {self.concurrency!r}")
        ok = 0 <= self.think_time_s < math.inf
        require(ok, "think_time_s", f"must be 0 s or more, found {self.think_time_s!r}")


# The name beside the other processes; a workload carries it on as `closed_loop`.
ClosedLoopArrivals = ClosedLoop


@dataclass(frozen=True)
class ScheduleArrivals:
    """Poisson arrivals whose rate changes over time.

    times_s: seconds, from 0, increasing. request_rates: requests/s at these times, 0 allowed. shape: `step`
    keeps a rate until the next time, `linear` joins them by straight lines. period_s: the schedule repeats
    after so many seconds (a `linear` one returns to its first rate by then); None keeps the last rate for
    ever.

    Times are drawn by inversion: with L(t) the integral of the rate, L of the k-th arrival is the sum of k
    exponential variables of mean 1 (time change of a Poisson process).
    """

    times_s: tuple[float, ...]
    request_rates: tuple[float, ...]
    shape: Literal["step", "linear"] = "step"
    period_s: float | None = None

    def __post_init__(self) -> None:
        times, rates = self.times_s, self.request_rates
        require(len(times) == len(rates) > 0, "times_s", "needs one entry for each of request_rates")
        require(times[0] == 0, "times_s", f"must begin at 0 s, found {times[0]!r}")
        increasing = all(a < b for a, b in pairwise(times))
        require(increasing and times[-1] < math.inf, "times_s", "must increase")
        require(all(0 <= r < math.inf for r in rates), "request_rates", "must be finite and 0 or more")
        require(any(r > 0 for r in rates), "request_rates", "are all 0: nothing would ever arrive")
        require(self.shape in ("step", "linear"), "shape", f"must be step or linear, found {self.shape!r}")
        ok = self.period_s is None or times[-1] < self.period_s < math.inf
        require(ok, "period_s", f"must lie after the last time, {times[-1]} s; found {self.period_s!r}")

    @classmethod
    def diurnal(
        cls,
        request_rate: float,
        peak_to_mean: float,
        *,
        peak_at_s: float = 43_200.0,
        period_s: float = 86_400.0,
    ) -> Self:
        """A daily wave: mean `request_rate`, at `peak_at_s` `peak_to_mean` (1 to 2) times as much.

        The cosine is followed by 96 straight lines (a quarter of an hour each); the mean is kept exactly.
        """
        _require_rate(request_rate)
        require(1 <= peak_to_mean <= 2, "peak_to_mean", f"must lie in 1..2, found {peak_to_mean!r}")
        require(0 < period_s < math.inf, "period_s", f"must be above 0 s, found {period_s!r}")
        times = np.arange(96) * (period_s / 96)
        wave = np.cos(2 * np.pi * (times - peak_at_s) / period_s)
        rates = np.maximum(request_rate * (1 + (peak_to_mean - 1) * wave), 0.0)
        return cls(tuple(times.tolist()), tuple(rates.tolist()), "linear", period_s)

    def times(self, count: int, rng: np.random.Generator) -> Seconds:
        """Times as above. Raises ConfigError if the rate ends at 0 before `count` requests have come."""
        mass = np.cumsum(rng.standard_exponential(count))
        begin_s, rate, slope, before = self._segments()
        cycle_s = np.zeros(count)
        if self.period_s is not None:
            per_cycle = before[-1]
            cycle_s = np.floor(mass / per_cycle) * self.period_s
            mass = np.mod(mass, per_cycle)
        elif rate[-1] == 0 and count and mass[-1] > before[-1]:
            arrived = int(np.searchsorted(mass, before[-1]))
            problem = f"asks for {count:,} requests, but the schedule ends at rate 0 after {arrived:,}"
            raise ConfigError(problem, key="num_requests", hint="Give it a period_s or a last rate above 0")
        segment = np.clip(np.searchsorted(before, mass, side="right") - 1, 0, len(rate) - 1)
        left = mass - before[segment]
        # The root of rate*x + slope*x^2/2 = left in the form that loses no digits and holds for slope 0 too.
        root = np.sqrt(np.maximum(rate[segment] ** 2 + 2 * slope[segment] * left, 0.0))
        inside = 2 * left / np.maximum(rate[segment] + root, 1e-300)
        return np.maximum.accumulate(cycle_s + begin_s[segment] + inside)

    def _segments(self) -> tuple[Seconds, Seconds, Seconds, Seconds]:
        """Begin, rate at the begin and slope of each segment, and the expected arrivals before it.

        The last array has one more entry, the arrivals of a whole period, when the schedule repeats.
        """
        begin_s, rate = np.array(self.times_s), np.array(self.request_rates)
        if self.period_s is None:
            width, end_rate = np.diff(begin_s), rate[1:]
        else:
            width, end_rate = np.diff(begin_s, append=self.period_s), np.append(rate[1:], rate[0])
        start_rate = rate[: len(width)]
        slope = (end_rate - start_rate) / width if self.shape == "linear" else np.zeros(len(width))
        arrivals = width * start_rate + slope * width**2 / 2
        before = np.concatenate(([0.0], np.cumsum(arrivals)))
        # Without a period the last rate goes on for ever: one more, flat segment.
        endless = np.zeros(len(rate) - len(slope))
        return begin_s, rate, np.concatenate((slope, endless)), before


OpenArrivals = PoissonArrivals | GammaArrivals | ConstantArrivals | BatchArrivals | TraceArrivals | ScheduleArrivals
Arrivals = OpenArrivals | ClosedLoop
