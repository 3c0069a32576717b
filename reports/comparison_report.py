"""The report of a comparison: which GPUs to buy or rent, how many, at what cost, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from servecast.reports.accuracy_text import within_band
from servecast.reports.comparison_tables import (
    cost_table,
    lost_table,
    price_table,
    ranking_table,
    sensitivity_table,
    use_table,
)
from servecast.reports.comparison_text import asked, assumptions, verification
from servecast.reports.figures.comparison import CostOf, cost_over_load, cost_ranking
from servecast.reports.figures.load import latency_vs_load, throughput_per_gpu
from servecast.reports.figures.roofline import roofline
from servecast.reports.figures.run import time_by_cause
from servecast.reports.figures.style import Figure
from servecast.reports.report import Answer, KeyNumber, Report, Section
from servecast.reports.settings import common_settings
from servecast.reports.stored_comparison import Candidate, StoredComparison
from servecast.reports.tables import Column, Table
from servecast.reports.units import COUNT, DOLLARS, GIB, MS, PERCENT, Unit

_MOST_BARS = 12
_MOST_LINES = 8
_LATENCIES = ("ttft", "tpot", "e2el")


def comparison_report(comparison: StoredComparison) -> Report:
    """Everything that can be said of `comparison` from its files."""
    figures = comparison.figures
    sections = [
        Section("What was asked", [asked(figures)], **_settings(comparison)),
        Section(
            "Comparison",
            list(verification(figures)),
            tables=_with_rows(ranking_table(figures), cost_table(figures), lost_table(figures)),
            figures=list(_cost_figures(comparison)),
        ),
        Section(
            "What limits each candidate",
            tables=_with_rows(use_table(figures)),
            figures=list(_limit_figures(comparison)),
        ),
        Section("Memory", tables=_with_rows(_memory(comparison))),
        Section("Latency", tables=_with_rows(_latencies(comparison)), figures=list(_load_figures(comparison))),
        Section("What if", tables=_with_rows(sensitivity_table(figures))),
        Section("Accuracy", points=list(assumptions(figures)), tables=_with_rows(_accuracy(comparison))),
        Section("Prices", [f"Prices as of {figures['date']}."], tables=_with_rows(price_table(figures))),
        _provenance(comparison),
    ]
    kept = [
        section for section in sections if section.tables or section.figures or section.points or section.paragraphs
    ]
    return Report(figures["name"], "Comparison of GPUs", _answer(comparison), kept)


def _with_rows(*tables: Table) -> list[Table]:
    return [table for table in tables if table.rows]


def _answer(comparison: StoredComparison) -> Answer:
    figures, carried = comparison.figures, comparison.carried
    if not carried:
        return Answer(figures["recommendation"], "", [], good=False)
    best, question = carried[0], figures["question"]
    interval = (
        f"Ranges hold the error of the model and {question['seeds']} seeds: {best['gpus_text']} GPUs"
        f"{_dollar_range(best)}."
    )
    if comparison.figures["ties"]:
        interval += f" Within them {len(figures['ties'])} more are as cheap: the ranking is open between them."
    load = Unit(question["unit"])
    numbers = [
        KeyNumber(_dollars(best["usd_per_hour"]), "an hour", f"{question['basis']}{_dollar_range(best)}"),
        KeyNumber(f"{best['gpus']:,}", f"x {best['gpu']}", f"{best['gpus_text']} within the error band"),
        KeyNumber(
            load.with_symbol(best["capacity"]),
            "carried by one replica",
            f"{load.text(best['capacity_low'])} to {load.text(best['capacity_high'])}; {best['limit']} binds",
        ),
    ]
    return Answer(figures["recommendation"], interval, numbers, good=True)


def _dollars(value: float | None) -> str:
    return DOLLARS.with_symbol(value)


def _dollar_range(row: Candidate) -> str:
    if row["usd_per_hour"] is None:
        return ""
    low, high = row["usd_per_hour_low"], row["usd_per_hour_high"]
    if low == high:
        return ""
    return f", {_dollars(low)} to {'no upper end' if high is None else _dollars(high)} an hour"


def _settings(comparison: StoredComparison) -> dict[str, Any]:
    if not comparison.settings:
        return {}
    shared, defaults = common_settings(comparison.settings)
    return {"tables": [shared], "folded": [defaults]}


def _cost_figures(comparison: StoredComparison) -> Iterator[Figure]:
    priced = [row for row in comparison.carried if row["usd_per_hour"] is not None]
    if not priced:
        return
    yield cost_ranking([_cost_of(row) for row in priced[:_MOST_BARS]])
    best = [row for row in comparison.best_of_each_gpu() if row["usd_per_hour"] is not None][:_MOST_LINES]
    question = comparison.figures["question"]
    yield cost_over_load([_cost_of(row) for row in best], float(question["target"]), question["unit"])


def _cost_of(row: Candidate) -> CostOf:
    return CostOf(
        name=row["label"],
        usd_per_hour=row["usd_per_hour"],
        low=row["usd_per_hour_low"],
        high=row["usd_per_hour_high"],
        capacity=row["capacity"],
        usd_per_replica_hour=row["usd_per_hour"] / row["replicas"],
        spare=row["spare_replicas"],
    )


def _limit_figures(comparison: StoredComparison) -> Iterator[Figure]:
    rows = [row for row in comparison.carried if row.get("bound_by")][:_MOST_BARS]
    if rows:
        yield time_by_cause({row["label"]: row["bound_by"] for row in rows})
    points = {row["label"]: row["run"].get("roofline") for row in comparison.best_of_each_gpu() if row.get("run")}
    known = {name: point for name, point in points.items() if point is not None}
    if known:
        yield roofline(dict(list(known.items())[:_MOST_LINES]))


def _load_figures(comparison: StoredComparison) -> Iterator[Figure]:
    """From the simulations that searched for the capacities."""
    rows = comparison.best_of_each_gpu()[:_MOST_LINES]
    panels = {}
    for limit in comparison.slo.limits[:3]:
        frame = pd.DataFrame(point for row in rows for point in _latency_points(row, str(limit), limit.metric))
        if len(frame):
            panels[f"{limit.metric.upper()} {limit.statistic or 'slowest'}"] = (frame, limit.limit_s * 1e3)
    unit = comparison.figures["question"]["unit"]
    if panels:
        yield latency_vs_load(panels, f"{unit} on each GPU")
    rates = pd.DataFrame(point for row in rows for point in _rates(row))
    if len(rates):
        yield throughput_per_gpu(rates)


def _probes(row: Candidate) -> list[Mapping[str, Any]]:
    """Simulations of one replica that ran to their end, by load."""
    return sorted((p for p in row["search"]["probes"] if not p["stopped"]), key=lambda probe: float(probe["load"]))


def _latency_points(row: Candidate, limit: str, metric: str) -> Iterator[dict[str, Any]]:
    error = (row["search"]["model_error"] or {}).get(metric)
    for probe in _probes(row):
        values = [found["value_ms"] for found in probe["limits"] if found["limit"] == limit and not found["cohort"]]
        if values and values[0] is not None:
            load = probe["load"] / row["gpus_per_replica"]
            low, high = within_band(values[0], error)
            yield {"series": row["label"], "load": load, "value_ms": values[0], "low_ms": low, "high_ms": high}


def _rates(row: Candidate) -> Iterator[dict[str, Any]]:
    for probe in _probes(row):
        if probe.get("p50_tpot_ms"):
            yield {
                "series": row["label"],
                "tokens_per_s_per_user": 1e3 / probe["p50_tpot_ms"],
                "tokens_per_s_per_gpu": probe["output_throughput"] / row["gpus_per_replica"],
            }


def _memory(comparison: StoredComparison) -> Table:
    columns = (
        Column("label", "candidate"),
        Column("weights_gib", "weights", GIB),
        Column("kv_gib", "KV cache", GIB),
        Column("kv_pool_tokens", "KV pool (tokens)", COUNT, best="high"),
        Column("short_gib", "short by", GIB),
    )
    rows = [
        {"label": label, **found, "short_gib": found["short_gib"] or None} for label, found in comparison.memory.items()
    ]
    return Table("memory", "Memory of each GPU", columns, rows)


def _latencies(comparison: StoredComparison) -> Table:
    rows = [{"label": row["label"], **row["run"]} for row in comparison.carried if row.get("run")]
    columns = [Column("label", "candidate")]
    for metric in _LATENCIES:
        for statistic in ("p50", "p95", "p99"):
            key = f"{statistic}_{metric}_ms"
            if any(row.get(key) is not None for row in rows):
                columns.append(Column(key, f"{metric.upper()} {statistic}", MS, best="low"))
    return Table("latencies", "Latency of the fleet at the target load", columns, rows)


def _accuracy(comparison: StoredComparison) -> Table:
    rows: list[dict[str, Any]] = []
    for row in comparison.carried:
        error = row["search"]["model_error"]
        if error is not None:
            shares = {metric: None if error[metric] is None else error[metric] * 100 for metric in ("tpot", "ttft")}
            rows.append({"label": row["label"], "calibration": row["calibration"], **shares, "basis": error["basis"]})
    columns = (
        Column("label", "candidate"),
        Column("calibration", "calibration"),
        Column("ttft", "TTFT", PERCENT),
        Column("tpot", "TPOT", PERCENT),
        Column("basis", "which runs"),
    )
    return Table("accuracy", "Error bands of the model", columns, rows)


def _provenance(comparison: StoredComparison) -> Section:
    provenance = comparison.figures["provenance"]
    points: Sequence[str] = [
        f"servecast {provenance['version']}, seed {provenance['seed']}, {comparison.figures['date']}",
        f"To repeat it: servecast compare {provenance['file']} --out DIR",
    ]
    return Section("Provenance", points=points)
