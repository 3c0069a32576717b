"""The report of a sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from servecast.reports.accuracy_text import accuracy_table, band_sentence
from servecast.reports.figures.roofline import roofline
from servecast.reports.figures.run import time_by_cause
from servecast.reports.price_text import prices_section
from servecast.reports.report import Answer, KeyNumber, Report, Section
from servecast.reports.run_text import RESOURCES
from servecast.reports.settings import common_settings
from servecast.reports.stored_sweep import StoredPoint, StoredSweep
from servecast.reports.sweep_figures import LOADS, sweep_figures
from servecast.reports.sweep_points import SweepPoints, point_table
from servecast.reports.tables import Column, Table
from servecast.reports.units import COUNT, SHARE, TOKENS_PER_S
from servecast.sweeps.store import FILE_NAME


def sweep_report(sweep: StoredSweep) -> Report:
    """Everything that can be said of `sweep` from its store."""
    points = SweepPoints(sweep.done)
    asked, defaults = common_settings([point.settings for point in sweep.points])
    shown = points.best_by_series()
    sections = [
        Section("What was asked", tables=[_axes(sweep), asked], folded=[defaults]),
        Section(
            "Points", _missing(sweep), tables=[point_table(points), *_failed(sweep)], figures=sweep_figures(points)
        ),
        Section(
            "What limits them",
            [_chosen_words(points)],
            tables=[_limits_table(shown)],
            figures=[time_by_cause(_by_name(shown, "bound_by")), *_roofline(shown)],
        ),
        Section(
            "Accuracy",
            ["Error of the model, within which 9 of 10 measured runs of the nearest kind lay, at those points."],
            tables=[accuracy_table({name: point.first["accuracy"] for name, point in shown.items()})],
            points=sorted({text for point in shown.values() for text in point.first["accuracy"]["caveats"]}),
        ),
        *prices_section({name: point.first for name, point in shown.items()}),
        _provenance(sweep),
    ]
    return Report(sweep.folder.resolve().name, _subtitle(sweep), _answer(sweep, points), sections)


def _subtitle(sweep: StoredSweep) -> str:
    axes = ", ".join(f"{name} ({len(values)})" for name, values in _axis_values(sweep).items())
    seeds = f", {sweep.replicates} seeds each" if sweep.replicates > 1 else ""
    return f"Sweep of {len(sweep.points)} points over {axes}{seeds}"


def _axis_values(sweep: StoredSweep) -> dict[str, list[Any]]:
    names = dict.fromkeys(name for point in sweep.points for name in point.labels)
    return {name: list(dict.fromkeys(str(point.labels.get(name)) for point in sweep.points)) for name in names}


def _axes(sweep: StoredSweep) -> Table:
    rows = [{"axis": name, "values": ", ".join(values)} for name, values in _axis_values(sweep).items()]
    return Table("axes", "What was varied", (Column("axis", "axis"), Column("values", "values")), rows)


def _answer(sweep: StoredSweep, points: SweepPoints) -> Answer:
    best = points.best()
    if best is None:
        return Answer("No point has a result.", "", [], good=False)
    name, meets = points.name(best), best.meets_limits
    throughput = best.estimate([summary["output_throughput"] for summary in best.summaries], "throughput")
    assert throughput is not None
    rate = TOKENS_PER_S.with_symbol(throughput.value)
    numbers = [KeyNumber(rate, "output throughput", name), *_limit_numbers(points, best)]
    return Answer(_sentence(points, best), _interval(sweep, best), numbers[:3], good=meets)


def _sentence(points: SweepPoints, best: StoredPoint) -> str:
    name, meets = points.name(best), best.meets_limits
    if meets is None:
        return f"{name} gives the most output tokens per GPU; the scenario sets no limits to hold points against."
    if not meets:
        return f"No point meets all limits; {name} comes closest."
    if points.load_label is not None:
        carries = f"{points.series(best)} carries the most: {_load_words(best)} within all limits"
        return f"{carries}{_ceiling(points, best)}."
    count = sum(point.meets_limits is True for point in points.points)
    return f"{count} of {len(points.points)} points meet all limits; of these {name} gives the most tokens per GPU."


def _load_words(point: StoredPoint) -> str:
    return f"{point.load:g} {LOADS[point.settings['workload']['arrivals']['process'] == 'closed_loop']}"


def _ceiling(points: SweepPoints, best: StoredPoint) -> str:
    """What the grid says of higher loads."""
    higher = [point.load for point in points.of_series(best) if (point.load or 0) > (best.load or 0)]
    if not higher:
        return ", the highest load of the sweep"
    return f" (the next load of the sweep, {min(load for load in higher if load is not None):g}, misses one)"


def _interval(sweep: StoredSweep, best: StoredPoint) -> str:
    seeds = (
        f"Means of {sweep.replicates} seeds; intervals join their 95 % interval and the error of the model."
        if sweep.replicates > 1
        else "One simulation a point, so no interval between seeds; intervals are the error of the model."
    )
    return f"{seeds} {band_sentence(best.first['accuracy'])}"


def _limit_numbers(points: SweepPoints, best: StoredPoint) -> Iterator[KeyNumber]:
    for limit in points.limits:
        found = limit.estimate(best)
        if found is not None:
            interval = "" if found.low is None else f"{limit.unit.text(found.low)} to {limit.unit.text(found.high)}, "
            note = f"{interval}limit {limit.text}" if limit.text else interval.removesuffix(", ")
            yield KeyNumber(limit.unit.with_symbol(found.value), limit.title, note)


def _missing(sweep: StoredSweep) -> list[str]:
    return [f"{sweep.unfinished} simulations have not run yet."] if sweep.unfinished else []


def _failed(sweep: StoredSweep) -> Iterator[Table]:
    rows = [
        {"point": ", ".join(f"{key} {value}" for key, value in point.labels.items()), "message": point.messages[0]}
        for point in sweep.points
        if point.messages
    ]
    if rows:
        yield Table("failed", "Points without a result", (Column("point", "point"), Column("message", "why")), rows)


def _chosen_words(points: SweepPoints) -> str:
    if points.load_label is None:
        return "The points with the most output tokens per GPU, those within all limits first."
    return "Each at its highest load within all limits, else at its lowest load."


def _by_name(shown: Mapping[str, StoredPoint], key: str) -> dict[str, Any]:
    return {name: point.first[key] for name, point in shown.items()}


def _roofline(shown: Mapping[str, StoredPoint]) -> Iterator[Any]:
    known = {name: point for name, point in _by_name(shown, "roofline").items() if point is not None}
    if known:
        yield roofline(known)


def _limits_table(shown: Mapping[str, StoredPoint]) -> Table:
    rows = []
    for name, point in shown.items():
        summary = point.first
        cause, share = max(summary["bound_by"].items(), key=lambda item: float(item[1]))
        missed = [verdict["limit"] for run in point.summaries for verdict in run["slo"] or () if not verdict["met"]]
        rows.append(
            {
                "name": name,
                "cause": RESOURCES[cause],
                "share": share,
                "kv_pool_blocks": summary["kv_pool_blocks"],
                "kv_usage_max": summary["kv_usage"]["max"],
                "preemptions": summary["preemptions"],
                "saturation": summary["saturation"],
                "missed": ", ".join(dict.fromkeys(missed)) or "none",
            }
        )
    columns = (
        Column("name", "point"),
        Column("cause", "most time goes to"),
        Column("share", "share of time", SHARE),
        Column("kv_pool_blocks", "KV pool (blocks)", COUNT),
        Column("kv_usage_max", "most of it used", SHARE),
        Column("preemptions", "preemptions", COUNT),
        Column("saturation", "load to saturation"),
        Column("missed", "limits missed"),
    )
    return Table("what-limits", "What limits each", columns, rows)


def _provenance(sweep: StoredSweep) -> Section:
    return Section(
        "Provenance",
        points=[
            f"Store: {sweep.folder}/{FILE_NAME}. It holds each point's settings; a result is tied to them and to the "
            "program by a hash.",
            f"What is missing or has changed runs with: servecast sweep SWEEP.yaml --out {sweep.folder} --resume",
        ],
    )
