"""Two sweeps side by side: the points that both have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from servecast.reports.diff import Change, Diff, figure_row, figures_table, settings_diff
from servecast.reports.settings import flat_settings
from servecast.reports.stored_sweep import StoredPoint, StoredSweep
from servecast.reports.sweep_points import Limited, SweepPoints
from servecast.reports.tables import Column
from servecast.reports.units import MS, REQUESTS_PER_S, TOKENS_PER_S, Unit
from servecast.sweeps.intervals import mean_interval

_THROUGHPUTS: Mapping[str, tuple[str, Unit]] = {
    "request_throughput": ("answered", REQUESTS_PER_S),
    "output_throughput": ("output throughput", TOKENS_PER_S),
}
_INTERVALS_NOTE = (
    "Intervals: of the differences between simulations with the same seed (Student's t); none for a single seed. They "
    "do not cover the error of the model."
)


def diff_sweeps(a: StoredSweep, b: StoredSweep) -> Diff:
    """`b` held against `a`, point by point: those with equal labels."""
    left, right = (SweepPoints(sweep.done) for sweep in (a, b))
    others = {_key(point): point for point in right.points}
    pairs = [(point, others[_key(point)]) for point in left.points if _key(point) in others]
    rows = [
        {"point": left.name(before), **row}
        for before, after in pairs
        for row in _figures(left.limits, right.limits, before, after)
    ]
    counts = (len(left.points) - len(pairs), len(right.points) - len(pairs))
    notes = [f"{len(pairs)} points are in both, {counts[0]} in A alone, {counts[1]} in B alone."]
    notes.append(_INTERVALS_NOTE)
    shared = [_shared(sweep) for sweep in (a, b)]
    return Diff(settings_diff(*shared), figures_table(rows, (Column("point", "point"),)), notes)


def _key(point: StoredPoint) -> str:
    return str(sorted((name, str(value)) for name, value in point.labels.items()))


def _shared(sweep: StoredSweep) -> dict[str, Any]:
    """Settings that all points have alike."""
    first, *others = (dict(flat_settings(point.settings)) for point in sweep.points)
    return {key: value for key, value in first.items() if all(other.get(key, ...) == value for other in others)}


def _figures(
    old_limits: Sequence[Limited], new_limits: Sequence[Limited], before: StoredPoint, after: StoredPoint
) -> Iterator[dict[str, Any]]:
    titles = {limit.title: limit for limit in new_limits}
    for limit in old_limits:
        if limit.title in titles:
            change = _change(before, after, limit.value, titles[limit.title].value)
            if change is not None:
                yield figure_row(limit.title, change, MS)
    for key, (name, unit) in _THROUGHPUTS.items():

        def figure(summary: Mapping[str, Any], key: str = key) -> float | None:
            value: float | None = summary[key]
            return value

        change = _change(before, after, figure, figure)
        if change is not None:
            yield figure_row(name, change, unit)


Figure = Callable[[Mapping[str, Any]], float | None]


def _change(before: StoredPoint, after: StoredPoint, old: Figure, new: Figure) -> Change | None:
    olds, news = [old(summary) for summary in before.summaries], [new(summary) for summary in after.summaries]
    pairs = [(x, y) for x, y in zip(olds, news, strict=False) if x is not None and y is not None]
    if not pairs:
        return None
    means = [sum(column) / len(pairs) for column in zip(*pairs, strict=True)]
    interval = mean_interval([y - x for x, y in pairs])
    low, high = (None, None) if interval is None else interval[1:]
    return Change(means[0], means[1], low, high)
