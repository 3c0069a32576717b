"""The figures that a sweep's points allow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations

import pandas as pd

from servecast.reports.figures.load import cost_vs_load, heat_map, latency_vs_load, throughput_per_gpu
from servecast.reports.figures.style import Figure
from servecast.reports.stored_sweep import StoredPoint
from servecast.reports.sweep_points import SweepPoints, cost_of_tokens, output_per_gpu, speed_for_user

# More lines than these cannot be told apart.
_MOST_SERIES = 8
# Of a load: whether it is a closed loop's -> unit.
LOADS = {False: "requests/s", True: "clients"}


def sweep_figures(points: SweepPoints) -> list[Figure]:
    """Curves over the load where there is one, a heat map for each pair of two other axes of numbers."""
    found = list(_curves(points)) if points.load_label is not None else []
    return [*found, *_heat_maps(points)]


def _curves(points: SweepPoints) -> Iterator[Figure]:
    kept = list(dict.fromkeys(map(points.series, points.points)))[:_MOST_SERIES]
    chosen = [point for point in points.points if points.series(point) in kept]
    closed = points.points[0].settings["workload"]["arrivals"]["process"] == "closed_loop"
    load_label = LOADS[closed]
    panels = {}
    for limit in points.limits[:3]:
        estimates = [(point, limit.estimate(point)) for point in chosen]
        rows = [
            {
                "series": points.series(p),
                "load": p.load,
                "value_ms": e.value,
                "low_ms": e.value if e.low is None else e.low,
                "high_ms": e.value if e.high is None else e.high,
            }
            for p, e in estimates
            if e is not None
        ]
        if rows:
            panels[limit.title] = (pd.DataFrame(rows), limit.limit_ms)
    if panels:
        yield latency_vs_load(panels, load_label)
    rates = [
        {
            "series": points.series(p),
            "tokens_per_s_per_user": speed_for_user(p),
            "tokens_per_s_per_gpu": output_per_gpu(p),
        }
        for p in sorted(chosen, key=lambda point: point.load or 0.0)
    ]
    yield throughput_per_gpu(pd.DataFrame(rates).dropna())
    costs = [
        {"series": points.series(p), "load": p.load, "cost": cost_of_tokens(p), "meets": p.meets_limits is not False}
        for p in chosen
    ]
    known = pd.DataFrame(costs).dropna()
    if len(known):
        yield cost_vs_load(known, load_label, "$ per million tokens")


def _rates(points: SweepPoints, chosen: Sequence[StoredPoint]) -> pd.DataFrame:
    rows = [(points.series(point), speed_for_user(point), output_per_gpu(point)) for point in chosen]
    return pd.DataFrame(rows, columns=["series", "tokens_per_s_per_user", "tokens_per_s_per_gpu"]).dropna()


def _heat_maps(points: SweepPoints) -> Iterator[Figure]:
    """For two axes of numbers that make a grid, every other axis at one value."""
    names = [name for name in points.points[0].labels if _varies_as_number(points, name)]
    for x, y in list(combinations(names, 2))[:1]:
        if len({len(point.labels) for point in points.points}) != 1 or len(names) < len(_varying(points)):
            return
        for limit in points.limits[:2]:
            rows = [
                {x: p.labels[x], y: p.labels[y], limit.title: e.value}
                for p in points.points
                if (e := limit.estimate(p))
            ]
            yield heat_map(pd.DataFrame(rows), x, y, limit.title, f"{limit.title} (ms)")
        rates = [{x: p.labels[x], y: p.labels[y], "output": output_per_gpu(p)} for p in points.points]
        yield heat_map(pd.DataFrame(rates), x, y, "output", "output tokens/s per GPU")


def _cells(points: SweepPoints, x: str, y: str, name: str, values: Sequence[float | None]) -> pd.DataFrame:
    labels = [point.labels for point in points.points]
    return pd.DataFrame({x: [label[x] for label in labels], y: [label[y] for label in labels], name: values})


def _varying(points: SweepPoints) -> list[str]:
    return [n for n in points.points[0].labels if len({str(point.labels.get(n)) for point in points.points}) > 1]


def _varies_as_number(points: SweepPoints, name: str) -> bool:
    values = [point.labels.get(name) for point in points.points]
    return name in _varying(points) and all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)
