"""Whether a run meets an SLO: on which requests it is judged, what each limit came to, whether the queue grows."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from servecast.model.admission import ADMISSION_REASONS
from servecast.model.cohorts import cohorts
from servecast.model.metrics import request_times, saturation, token_gaps_s
from servecast.model.records import COMPLETED, REJECTED, RequestRows
from servecast.model.simulation import SimulationParameters, SimulationResult
from servecast.model.slo import Slo, SloLimit
from servecast.model.statistics import weighted_percentiles
from servecast.model.workload import Workload

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# The system fills up in the first part of a run and empties in the last: requests that arrive then are not judged.
WARM_UP_SHARE = 0.1
COOL_DOWN_SHARE = 0.1
# Share of the arrivals that may stay in the system from the first third of the judged ones to the last.
GROWTH_SHARE = 0.02


@dataclass(frozen=True)
class Question:
    """What is asked of a run.

    attainment: share of the requests that must meet all limits on single requests (`ttft:500`). per_cohort: every limit
    must hold in each cohort. steady: see LoadAxis; if not, growth of the queue is not tested.
    """

    slo: Slo
    attainment: float = 0.99
    per_cohort: bool = False
    steady: bool = True

    def slower(self, tpot: float, ttft: float) -> Question:
        """The question for simulated times, if real ones are longer by these factors; E2EL and ITL go with TPOT."""
        factors = {"ttft": ttft}
        limits = tuple(replace(lim, limit_s=lim.limit_s / factors.get(lim.metric, tpot)) for lim in self.slo.limits)
        return replace(self, slo=Slo(limits))


@dataclass(frozen=True)
class LimitValue:
    """A limit and what was found. name: as in the SLO string. cohort: None for all requests. ratio: value over limit.

    requests: number of requests behind the value. value_ms: None where no request has one, and for limits on single
    requests together; share: of the requests that meet those, None for other limits.
    """

    name: str
    cohort: str | None
    ratio: float
    requests: int
    value_ms: float | None = None
    share: float | None = None

    @property
    def met(self) -> bool:
        return self.ratio <= 1


@dataclass(frozen=True)
class Verdict:
    """met: all limits are, and the queue does not grow. limits: worst first. judged: requests; attained: share of them
    that is within every limit by itself, those on statistics included.

    growing: more arrives than is served. stopped: a limit could no longer be met, and the run may have been ended then;
    its values are those known by that time. unservable: requests, by reason, that an idle replica could not run either.
    """

    met: bool
    limits: tuple[LimitValue, ...]
    judged: int
    attained: float
    growing: bool
    stopped: bool
    unservable: dict[str, int]

    @property
    def ratio(self) -> float:
        """The worst value over its limit; infinity if the run says no more than that it failed."""
        if self.met:
            return self.limits[0].ratio
        return math.inf if self.stopped or self.growing else self.limits[0].ratio


@dataclass(frozen=True)
class _Rule:
    """A limit as a statistic of a ratio that each request has. percentile: None for the mean."""

    name: str
    limits: tuple[SloLimit, ...]
    percentile: float | None
    single: bool


def judged_requests(count: int) -> slice:
    """Ids (in order of arrival) that a run of `count` requests is judged by."""
    return slice(int(count * WARM_UP_SHARE), count - int(count * COOL_DOWN_SHARE))


def needed_requests(slo: Slo, attainment: float) -> int:
    """Requests of a run so that about 20 of those judged lie beyond each percentile, and 1000 at least."""
    beyond = 20
    tails = [1 - rule.percentile / 100 for rule in _rules(slo, attainment) if rule.percentile is not None]
    judged = beyond / max(min(tails, default=1.0), 1e-4)
    return round(max(judged / (1 - WARM_UP_SHARE - COOL_DOWN_SHARE), 1000.0))


def judge(result: SimulationResult, question: Question, *, stopped: bool = False) -> Verdict:
    """The verdict on a finished run, or on one that was `stopped`."""
    state, times = result.requests["state"], request_times(result)
    turned_away = np.zeros(len(state), dtype=np.bool_)
    unservable: dict[str, int] = {}
    for id, reason in result.reasons.items():
        if reason in ADMISSION_REASONS:
            turned_away[id] = True
        else:
            unservable[reason] = unservable.get(reason, 0) + 1
    failed = turned_away | ((state != COMPLETED) & (state != REJECTED))
    chosen = np.zeros(len(state), dtype=np.bool_)
    chosen[judged_requests(len(state))] = True
    groups = [(None, chosen)] if not question.per_cohort else list(_cohorts(result.parameters, result.workload, chosen))
    rules = _rules(question.slo, question.attainment)
    values = [_value(rule, cohort, _ratios(rule, times, failed)[mask]) for cohort, mask in groups for rule in rules]
    values += [_itl(limit, result) for limit in question.slo.limits if limit.metric == "itl"]
    values.sort(key=lambda value: -value.ratio)
    growing = question.steady and not stopped and _grows(result)
    met = all(value.met for value in values) and not growing and not stopped
    attained = _attained(question.slo, times, failed, chosen)
    return Verdict(met, tuple(values), int(chosen.sum()), attained, growing, stopped, unservable)


def _attained(slo: Slo, times: dict[str, Floats], failed: Mask, chosen: Mask) -> float:
    served = chosen & (failed | ~np.isnan(times["e2el"]))
    good = served & ~failed
    for metric, limit_s in slo.request_limits_s.items():
        good &= ~(times[metric] > limit_s)
    return float(good.sum() / served.sum()) if served.any() else 0.0


def _cohorts(parameters: SimulationParameters, workload: Workload, chosen: Mask) -> Iterator[tuple[str | None, Mask]]:
    assert parameters.cohorts is not None  # checked where the question is put
    for name, mask in cohorts(parameters.cohorts, workload):
        if (mask & chosen).any():
            yield name, mask & chosen


def smallest_cohort(parameters: SimulationParameters, workload: Workload) -> float:
    """Share of the requests in the smallest cohort that has some, 2 % at least."""
    everybody = np.ones(len(workload), dtype=np.bool_)
    return max(min(float(mask.mean()) for _, mask in _cohorts(parameters, workload, everybody)), 0.02)


def _rules(slo: Slo, attainment: float) -> list[_Rule]:
    """Limits on single requests become one rule: the ratio of a request is its worst."""
    rules = [
        _Rule(str(limit), (limit,), limit.percentile, single=False)
        for limit in slo.limits
        if limit.statistic is not None and limit.metric != "itl"
    ]
    single = tuple(limit for limit in slo.limits if limit.statistic is None)
    if single:
        name = f"{' '.join(map(str, single))} of {attainment:.4g} of the requests"
        rules.append(_Rule(name, single, attainment * 100, single=True))
    return rules


def _ratios(rule: _Rule, times: dict[str, Floats], failed: Mask) -> Floats:
    """Value over limit by request, NaN where a request has none (TPOT of one token); infinity if it was not served."""
    columns = [times[limit.metric] / limit.limit_s for limit in rule.limits]
    ratio = columns[0]
    for column in columns[1:]:
        ratio = np.fmax(ratio, column)
    return np.where(failed, np.inf, ratio)


def _value(rule: _Rule, cohort: str | None, ratios: Floats) -> LimitValue:
    known = ratios[~np.isnan(ratios)]
    if not len(known):
        return LimitValue(rule.name, cohort, 0.0, 0)
    share = float((known <= 1).mean()) if rule.single else None
    if rule.percentile is None:
        ratio = float(known.mean())
    else:
        # Between a number and infinity nothing can be interpolated.
        method: Literal["linear", "higher"] = "linear" if np.isfinite(known).all() else "higher"
        ratio = float(np.percentile(known, rule.percentile, method=method))
    value_ms = None if rule.single else ratio * rule.limits[0].limit_s * 1e3
    return LimitValue(rule.name, cohort, ratio, len(known), value_ms, share)


def _itl(limit: SloLimit, result: SimulationResult) -> LimitValue:
    """Over all gaps of the run: they are recorded by step, not by request."""
    gaps, counts = token_gaps_s(result)
    requests = int((result.requests["state"] == COMPLETED).sum())
    if not counts.sum():
        return LimitValue(str(limit), None, 0.0, 0)
    if limit.percentile is None:
        value_s = float(gaps @ counts / counts.sum())
    else:
        value_s = float(weighted_percentiles(gaps, counts, (limit.percentile,))[0])
    return LimitValue(str(limit), None, value_s / limit.limit_s, requests, value_s * 1e3)


def _grows(result: SimulationResult) -> bool:
    """Whether requests pile up: waits grow, or ever more are in the system. Judged over the requests that count."""
    if saturation(result) == "above":
        return True
    inside = in_system(result)[judged_requests(len(result.workload))]
    third = len(inside) // 3
    if third < 10:
        return False
    early, late = float(inside[:third].mean()), float(inside[-third:].mean())
    # Numbers in a system that is in balance vary by about their root.
    return late - early > max(GROWTH_SHARE * 2 * third, 4 * math.sqrt(max(late, 1.0)))


def in_system(result: SimulationResult) -> Floats:
    """Requests that are there when each request arrives, itself included."""
    arrival, finish = result.requests["arrival_s"], result.requests["finish_s"]
    order = np.argsort(arrival, kind="stable")
    gone = np.searchsorted(np.sort(finish[~np.isnan(finish)]), arrival[order], side="right")
    inside = np.empty(len(arrival))
    inside[order] = np.arange(1, len(arrival) + 1) - gone
    return inside


class HopelessStop:
    """Says when a run can no longer meet `question`, whatever comes: so many requests are over a limit that the
    percentile must be, or their sum is more than the mean allows. For `run_simulation`'s `stop`.
    """

    def __init__(self, question: Question, outputs: NDArray[np.int64], groups: Sequence[Mask]) -> None:
        self._rules = _rules(question.slo, question.attainment)
        self._outputs = outputs
        self._groups = groups
        self.stopped = False

    def __call__(self, rows: RequestRows) -> bool:
        arrival, first = np.asarray(rows.arrival_s), np.asarray(rows.first_token_s)
        finish = np.asarray(rows.finish_s)
        gaps = self._outputs - 1
        with np.errstate(invalid="ignore", divide="ignore"):
            tpot = np.where(gaps > 0, (finish - first) / gaps, np.nan)
        times = {"ttft": first - arrival, "tpot": tpot, "e2el": finish - arrival}
        nobody = np.zeros(len(first), dtype=np.bool_)
        self.stopped = any(
            _hopeless(rule, _ratios(rule, times, nobody)[mask]) for rule in self._rules for mask in self._groups
        )
        return self.stopped


def _hopeless(rule: _Rule, ratios: Floats) -> bool:
    count = len(ratios)
    if rule.percentile is None:
        return float(np.nansum(ratios)) > count
    over = int((ratios > 1).sum())
    return over > count - 1 - math.floor(rule.percentile / 100 * (count - 1))


def hopeless_stop(parameters: SimulationParameters, workload: Workload, question: Question) -> HopelessStop:
    """The stop for a run of `workload`."""
    chosen = np.zeros(len(workload), dtype=np.bool_)
    chosen[judged_requests(len(workload))] = True
    groups = [chosen]
    if question.per_cohort:
        groups = [mask for _, mask in _cohorts(parameters, workload, chosen)]
    return HopelessStop(question, workload.output_tokens, groups)
