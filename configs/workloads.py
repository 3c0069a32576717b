"""From the scenario's workload section to what the simulator draws: processes, distributions, profiles, trace files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from servecast.configs.arrival_sections import (
    BatchSection,
    ClosedLoopSection,
    ConstantSection,
    GammaSection,
    PoissonSection,
    ScheduleSection,
    TraceSection,
)
from servecast.configs.length_profiles import load_length_profile
from servecast.configs.length_sections import (
    FixedSection,
    HistogramSection,
    LengthsSection,
    LognormalSection,
    RecordedLengthsSection,
    UniformSection,
)
from servecast.configs.origin import Origin
from servecast.configs.scenario import Scenario, WorkloadSection, looks_like_path
from servecast.configs.traces import TraceData, read_trace
from servecast.hardware.errors import ConfigError
from servecast.model.arrivals import (
    Arrivals,
    BatchArrivals,
    ClosedLoop,
    ConstantArrivals,
    GammaArrivals,
    PoissonArrivals,
    ScheduleArrivals,
)
from servecast.model.identity import IdentityParameters
from servecast.model.lengths import (
    FixedLength,
    HistogramLength,
    JointLengths,
    LengthDistribution,
    Lengths,
    LognormalLength,
    UniformLength,
)
from servecast.model.request import Content
from servecast.model.workload import WorkloadParameters

Drawn = PoissonSection | GammaSection | ConstantSection | BatchSection | ClosedLoopSection | ScheduleSection


def build_workload(scenario: Scenario) -> WorkloadParameters:
    """The workload of `scenario`. Raises ConfigError for an unknown profile and for trace files that cannot be used."""
    section, origin = scenario.workload, scenario.origin
    notes: tuple[str, ...] = ()
    arrivals: Arrivals
    lengths: Lengths | None = None
    trace: TraceData | None = None
    try:
        if isinstance(section.arrivals, TraceSection):
            trace = _read_arrivals(section.arrivals, origin)
            arrivals, lengths = trace.arrivals(section.arrivals.rate_scale), trace.lengths()
            notes = trace.notes
        else:
            arrivals = _arrivals(section.arrivals)
        if section.lengths is not None:
            lengths, more = _lengths(section.lengths, origin)
            notes += more
    except ConfigError as error:
        raise origin.locate(error, "workload") from None
    assert lengths is not None  # the scenario has lengths unless it replays a trace
    identity = _identity(section, None if trace is None else trace.contents())
    return WorkloadParameters(arrivals, lengths, section.request_count, identity, scenario.name, notes)


def _identity(section: WorkloadSection, recorded: Sequence[Content] | None) -> IdentityParameters:
    """Recorded prompt contents count unless the scenario says what prompts share."""
    prompts = section.prompts
    return IdentityParameters(
        priorities=section.priorities or {},
        tenants=section.tenants or {},
        distinct_prompts=None if prompts is None else prompts.distinct,
        shared_prefix_tokens=0 if prompts is None else prompts.shared_prefix_tokens,
        contents=recorded if prompts is None and section.lengths is None else None,
    )


def _arrivals(section: Drawn) -> Arrivals:
    match section:
        case PoissonSection():
            return PoissonArrivals(section.request_rate, section.exact_rate)
        case GammaSection(cv=float(cv)):
            return GammaArrivals.from_cv(section.request_rate, cv, section.exact_rate)
        case GammaSection():
            return GammaArrivals(section.request_rate, section.burstiness or 1.0, section.exact_rate)
        case ConstantSection():
            return ConstantArrivals(section.request_rate)
        case BatchSection():
            return BatchArrivals()
        case ClosedLoopSection():
            return ClosedLoop(section.concurrency, section.think_time_s)
        case ScheduleSection(diurnal=None):
            return ScheduleArrivals(section.times_s or (), section.request_rates or (), section.shape, section.period_s)
        case ScheduleSection(diurnal=wave):
            assert wave is not None  # the case above takes schedules without a wave
            return ScheduleArrivals.diurnal(
                wave.request_rate, wave.peak_to_mean, peak_at_s=wave.peak_at_s, period_s=wave.period_s
            )


def _lengths(section: LengthsSection, origin: Origin) -> tuple[Lengths, tuple[str, ...]]:
    if section.profile is not None:
        profile = section.profile
        key = "workload.lengths.profile"
        try:
            return load_length_profile(origin.resolve(key, profile) if looks_like_path(profile) else profile), ()
        except ConfigError as error:
            raise origin.locate(error, "workload.lengths") from None
    if section.trace is not None:
        trace = _read_lengths(section.trace, origin)
        return trace.lengths(section.trace.order), trace.notes
    assert section.prompt is not None  # the section has exactly one source of lengths
    assert section.output is not None
    return JointLengths(
        _distribution(section.prompt), _distribution(section.output), section.rank_correlation or 0.0
    ), ()


def _distribution(
    section: FixedSection | UniformSection | LognormalSection | HistogramSection,
) -> LengthDistribution:
    match section:
        case FixedSection():
            return FixedLength(section.value)
        case UniformSection(low=int(low), high=int(high)):
            return UniformLength(low, high)
        case UniformSection(value=int(value), range_ratio=float(ratio)):
            return UniformLength.from_range_ratio(value, ratio)
        case LognormalSection():
            return LognormalLength(section.mean, section.cv, section.min, section.max)
        case HistogramSection():
            return HistogramLength(section.probabilities, section.tokens)
    raise AssertionError(section)


def _read_arrivals(section: TraceSection, origin: Origin) -> TraceData:
    path = _existing(section.path, "workload.arrivals.path", origin)
    return read_trace(path, section.format, time_unit=section.time_unit, bad_rows=section.bad_rows)


def _read_lengths(section: RecordedLengthsSection, origin: Origin) -> TraceData:
    path = _existing(section.path, "workload.lengths.trace.path", origin)
    return read_trace(path, section.format, bad_rows=section.bad_rows)


def _existing(path: str, key: str, origin: Origin) -> Path:
    """The file that `key` names; a missing one is the scenario's fault, so the message names its line."""
    file = origin.resolve(key, path)
    if not file.exists():
        raise origin.error(key, f"no such file: {file}")
    return file
