"""The points of a sweep in the terms of a report: series, loads, limits, the best."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from servecast.model.slo import SloLimit, parse_slo
from servecast.reports.stored_sweep import Estimate, StoredPoint
from servecast.reports.tables import Column, Table
from servecast.reports.units import (
    COUNT,
    DOLLARS_PER_MILLION_TOKENS,
    MS,
    REQUESTS_PER_S,
    SHARE,
    TOKENS_PER_S,
    Unit,
)

# Where the scenario sets no limits.
_USUAL = (("ttft", "p99"), ("tpot", "p99"))
_MOST_SERIES = 8


@dataclass(frozen=True)
class Limited:
    """A figure that points are judged by. limit_ms: None where there is no limit. text: of the limit."""

    metric: str
    statistic: str | None
    limit_ms: float | None
    text: str
    unit: Unit = MS

    @property
    def title(self) -> str:
        return f"{self.metric.upper()} {self.statistic or 'slowest'}"

    def estimate(self, point: StoredPoint) -> Estimate | None:
        """Of all seeds."""
        return point.estimate([self.value(summary) for summary in point.summaries], self.metric)

    def value(self, summary: Any) -> float | None:
        """Of one seed, in ms."""
        for verdict in summary["slo"] or ():
            if verdict["limit"] == self.text:
                value: float | None = verdict["value_ms"]
                return value
        return None if self.statistic is None else summary.get(f"{self.statistic}_{self.metric}_ms")


def _called(name: str, value: Any) -> str:
    """A word stands for itself, a number needs its name."""
    return value if isinstance(value, str) else f"{name} {value}"


def _limited(limit: SloLimit) -> Limited:
    return Limited(limit.metric, limit.statistic, limit.limit_s * 1e3, str(limit))


@dataclass(frozen=True)
class SweepPoints:
    """points: those with results. A series is made of the points that differ in their load only."""

    points: Sequence[StoredPoint]

    @property
    def limits(self) -> list[Limited]:
        """The limits of the first point (a sweep rarely varies them), else the usual figures."""
        slo = self.points[0].settings["slo"] if self.points else None
        if slo is not None:
            return [_limited(limit) for limit in parse_slo(slo).limits]
        return [Limited(metric, statistic, None, "") for metric, statistic in _USUAL]

    @property
    def load_label(self) -> str | None:
        """The axis that is the load, if one is."""
        for name in self.points[0].labels if self.points else ():
            values = [point.labels.get(name) for point in self.points]
            if len(set(map(str, values))) > 1 and values == [point.load for point in self.points]:
                return name
        return None

    def series(self, point: StoredPoint) -> str:
        """What a point is called whatever its load."""
        others = [_called(name, value) for name, value in point.labels.items() if name != self.load_label]
        return ", ".join(others) or str(point.settings["name"])

    def name(self, point: StoredPoint) -> str:
        """What a point is called among all."""
        load = "" if self.load_label is None else f" at {point.load:g}"
        return self.series(point) + load

    def of_series(self, point: StoredPoint) -> list[StoredPoint]:
        return [other for other in self.points if self.series(other) == self.series(point)]

    def best(self) -> StoredPoint | None:
        """The highest load within the limits; without loads or limits the most output tokens per GPU."""
        return max(self.points, key=self._rank, default=None)

    def best_by_series(self) -> dict[str, StoredPoint]:
        """The best of each series; without loads the best points. At most _MOST_SERIES, by name."""
        if self.load_label is None:
            return {
                self.name(point): point for point in sorted(self.points, key=self._rank, reverse=True)[:_MOST_SERIES]
            }
        found: dict[str, StoredPoint] = {}
        for point in self.points:
            name = self.series(point)
            found[name] = max(found.get(name, point), point, key=self._rank)
        names = sorted(found, key=lambda name: self._rank(found[name]), reverse=True)[:_MOST_SERIES]
        return {self.name(found[name]): found[name] for name in names}

    def _rank(self, point: StoredPoint) -> tuple[float, float, float]:
        per_gpu = float(point.first["output_throughput"]) / point.gpus
        if self.load_label is None or point.meets_limits is None:
            return (float(point.meets_limits is True), 0.0, per_gpu)
        # Of those that miss, the one with the least to do comes closest.
        load = float(point.load or 0.0)
        return (1.0, load, per_gpu) if point.meets_limits else (0.0, -load, per_gpu)


def point_table(points: SweepPoints) -> Table:
    """One row a point: labels, whether limits are met, latencies with intervals, throughput, cost."""
    labels = list(dict.fromkeys(name for point in points.points for name in point.labels))
    columns = [Column(f"label {name}", name, _label_unit(points, name)) for name in labels]
    if any(point.meets_limits is not None for point in points.points):
        columns += [Column("meets", "within all limits"), Column("goodput_share", "requests within limits", SHARE)]
    for limit in points.limits:
        key = limit.title
        columns.append(Column(key, limit.title, limit.unit, best="low", interval=(f"{key} low", f"{key} high")))
    columns += [
        Column("request_throughput", "answered", REQUESTS_PER_S),
        Column("per_gpu", "output per GPU", TOKENS_PER_S, best="high"),
        Column("per_user", "speed for a user", TOKENS_PER_S, best="high", note="1 / TPOT p50"),
        Column("utilization", "busy", SHARE),
    ]
    rows = [_row(points, point) for point in points.points]
    if any(row["cost"] is not None for row in rows):
        columns.append(Column("cost", "cost", DOLLARS_PER_MILLION_TOKENS, best="low", note="input and output tokens"))
    columns.append(Column("saturation", "load to saturation"))
    return Table("points", "Points", columns, rows)


def _label_unit(points: SweepPoints, name: str) -> Unit | None:
    values = [point.labels.get(name) for point in points.points]
    return COUNT if all(isinstance(value, int | float) and not isinstance(value, bool) for value in values) else None


def _row(points: SweepPoints, point: StoredPoint) -> dict[str, Any]:
    row: dict[str, Any] = {f"label {name}": value for name, value in point.labels.items()}
    for limit in points.limits:
        found = limit.estimate(point)
        if found is not None:
            row |= {limit.title: found.value, f"{limit.title} low": found.low, f"{limit.title} high": found.high}
    states = dict.fromkeys(str(summary["saturation"]) for summary in point.summaries if summary["saturation"])
    return row | {
        "meets": point.meets_limits,
        "goodput_share": _mean(point, "goodput_share"),
        "request_throughput": _mean(point, "request_throughput"),
        "per_gpu": output_per_gpu(point),
        "per_user": speed_for_user(point),
        "utilization": _mean(point, "utilization"),
        "cost": cost_of_tokens(point),
        "saturation": ", ".join(states) or None,
    }


def _mean(point: StoredPoint, key: str) -> float | None:
    found = point.estimate([summary[key] for summary in point.summaries], None)
    return None if found is None else found.value


def output_per_gpu(point: StoredPoint) -> float | None:
    """Output tokens a second of one GPU."""
    throughput = _mean(point, "output_throughput")
    return None if throughput is None else throughput / point.gpus


def speed_for_user(point: StoredPoint) -> float | None:
    """Output tokens a second that the median request gets."""
    tpot_ms = _mean(point, "p50_tpot_ms")
    return 1e3 / tpot_ms if tpot_ms else None


def cost_of_tokens(point: StoredPoint) -> float | None:
    """Dollars for a million tokens of input and output; None where no price is known."""
    found = [summary["cost"]["usd_per_million_tokens"]["blended"] for summary in point.summaries if "cost" in summary]
    estimate = point.estimate(found, None)
    return None if estimate is None else estimate.value
