"""Scenario sections for `workload.arrivals`: one class for each process, told apart by `process`."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from servecast.configs.fields import (
    Bounds,
    Choices,
    Count,
    NotNegative,
    Number,
    Positive,
    Section,
    Switch,
    Text,
    check,
)
from servecast.configs.trace_columns import FORMAT_NAMES, TIME_UNITS_S

Rate = Annotated[float, Bounds(gt=0, le=1e9), Field(description="Mean requests per second, of all clients together.")]
ExactRate = Annotated[
    Switch,
    Field(description="Stretch the times so that the last request arrives at num_requests/request_rate."),
]
TraceFormatName = Annotated[str, Choices(FORMAT_NAMES)]
TimeUnit = Annotated[str, Choices(tuple(TIME_UNITS_S))]
BadRows = Annotated[Literal["error", "skip"], Choices(("error", "skip"))]


class PoissonSection(Section):
    """Independent users: exponential gaps between requests."""

    process: Literal["poisson"]
    request_rate: Rate
    exact_rate: ExactRate = False


class GammaSection(Section):
    """Gamma-distributed gaps: burstier or steadier than Poisson. Give `burstiness` or `cv`."""

    process: Literal["gamma"]
    request_rate: Rate
    burstiness: Positive | None = Field(
        default=None, description="As in vLLM: below 1 comes in bursts, 1 is Poisson, above 1 is steadier."
    )
    cv: NotNegative | None = Field(
        default=None,
        description="Standard deviation of the gaps over their mean: 1 is Poisson, 2 comes in bursts.",
    )
    exact_rate: ExactRate = False

    @model_validator(mode="after")
    def _one_of_burstiness_and_cv(self) -> Self:
        given = (self.burstiness is not None) + (self.cv is not None)
        hint = "cv is 1/sqrt(burstiness): cv 2 and burstiness 0.25 are the same"
        check(given > 0, "burstiness", "is missing: a gamma process needs burstiness or cv", hint)
        check(given < 2, "cv", "stands beside burstiness: give one of them", hint)
        return self


class ConstantSection(Section):
    """One request every 1/request_rate seconds."""

    process: Literal["constant"]
    request_rate: Rate


class BatchSection(Section):
    """All requests at once, at time 0: offline work."""

    process: Literal["batch"]


class ClosedLoopSection(Section):
    """A fixed number of clients, each with one request at a time: what most benchmarks do."""

    process: Literal["closed_loop"]
    concurrency: Count = Field(description="Number of clients.")
    think_time_s: Annotated[float, Bounds(ge=0, le=1e6)] = Field(
        default=0.0, description="Seconds between a client's answer and its next request."
    )


class DiurnalSection(Section):
    """A daily wave around a mean rate."""

    request_rate: Rate
    peak_to_mean: Annotated[float, Bounds(ge=1, le=2)] = Field(
        description="Rate at the peak over the mean rate, 1 to 2."
    )
    peak_at_s: Number = Field(default=43_200.0, description="Time of the peak in seconds after the start.")
    period_s: Positive = Field(default=86_400.0, description="Length of the wave in seconds.")


class ScheduleSection(Section):
    """Poisson arrivals at a rate that changes: `times_s` with `request_rates`, or `diurnal`."""

    process: Literal["schedule"]
    times_s: tuple[NotNegative, ...] | None = Field(
        default=None, description="Seconds after the start at which the rate changes; the first is 0."
    )
    request_rates: tuple[NotNegative, ...] | None = Field(
        default=None, description="Requests per second from each of times_s on."
    )
    shape: Annotated[Literal["step", "linear"], Choices(("step", "linear"))] = Field(
        default="step",
        description="step keeps a rate until the next time; linear joins them by straight lines.",
    )
    period_s: Positive | None = Field(
        default=None, description="Repeat the schedule after so many seconds. Default: the last rate goes on."
    )
    diurnal: DiurnalSection | None = Field(default=None, description="A daily wave, in place of times_s.")

    @model_validator(mode="after")
    def _points_or_wave(self) -> Self:
        times, rates = self.times_s, self.request_rates
        if self.diurnal is not None:
            alone = times is None and rates is None and self.period_s is None
            check(alone, "diurnal", "stands beside times_s, request_rates or period_s: give one or the other")
            return self
        hint = "Write times_s: [0, 3600] and request_rates: [2, 8], or diurnal: {...}"
        check(times is not None, "times_s", "is missing: a schedule needs times_s, or diurnal", hint)
        check(rates is not None, "request_rates", "is missing: one rate for each of times_s", hint)
        _check_points(times or (), rates or (), self.period_s)
        return self


def _check_points(times_s: tuple[float, ...], rates: tuple[float, ...], period_s: float | None) -> None:
    sizes = f"must hold one rate for each of times_s ({len(times_s)}), found {len(rates)}"
    check(len(times_s) == len(rates), "request_rates", sizes)
    check(len(times_s) > 0 and times_s[0] == 0, "times_s", "must begin at 0")
    check(all(a < b for a, b in pairwise(times_s)), "times_s", "must increase")
    check(any(rate > 0 for rate in rates), "request_rates", "are all 0: nothing would ever arrive")
    late = period_s is None or period_s > times_s[-1]
    check(late, "period_s", f"must lie after the last of times_s ({times_s[-1]:g}), found {period_s}")


class TraceSection(Section):
    """Recorded requests, replayed at their recorded times."""

    process: Literal["trace"]
    path: Text = Field(description="CSV or JSON lines file, gzip allowed; relative to the scenario file.")
    format: TraceFormatName = Field(default="auto", description="Format of the file; auto goes by its columns.")
    time_unit: TimeUnit | None = Field(default=None, description="Unit of its times, if not that of the format.")
    bad_rows: BadRows = Field(default="error", description="Rows without usable numbers: stop, or leave them out.")
    rate_scale: Positive = Field(default=1.0, description="2 replays twice as fast, which doubles the rate.")


ArrivalSection = Annotated[
    PoissonSection | GammaSection | ConstantSection | BatchSection | ClosedLoopSection | ScheduleSection | TraceSection,
    Field(discriminator="process", description="When requests arrive."),
]
