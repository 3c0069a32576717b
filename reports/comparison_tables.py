"""The tables of a comparison, for all formats. figures: of sweeps/compare/compare.py, or comparison.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from servecast.reports.run_text import RESOURCES, price_origin
from servecast.reports.tables import Column, Table
from servecast.reports.units import (
    COUNT,
    DOLLARS_PER_HOUR,
    JOULES_PER_TOKEN,
    SHARE,
    WATTS,
    Unit,
)

Figures = Mapping[str, Any]

_LOAD = Unit("", digits=3)
_PER_SECOND = Unit("", digits=3)
_DOLLARS = Unit("$", least_decimals=2)
_WHOLE_DOLLARS = Unit("$", digits=4)
_PER_MILLION = Unit("$/M tokens", least_decimals=3)
_HOURLY = Unit("$/GPU-h", least_decimals=2)


def carried(figures: Figures) -> list[dict[str, Any]]:
    """The candidates that carry the load, in their order."""
    return [row for row in figures["candidates"] if row["rank"] is not None]


def ranking_table(figures: Figures) -> Table:
    """Size, cost and speed of the candidates that carry the load, cheapest first."""
    unit = figures["question"]["unit"]
    columns = [
        Column("rank", "#", COUNT),
        Column("label", "candidate"),
        Column("replicas", "replicas", COUNT),
        Column("gpus", "GPUs", COUNT, best="low", interval=("gpus_low", "gpus_high"), note="smallest fleet found"),
        Column(
            "capacity", f"{unit} a replica", _LOAD, interval=("capacity_low", "capacity_high"), note="docs/capacity.md"
        ),
        Column(
            "usd_per_hour", "cost", DOLLARS_PER_HOUR, best="low", interval=("usd_per_hour_low", "usd_per_hour_high")
        ),
        Column("blended", "blended", _PER_MILLION, best="low"),
        Column("output_tokens_per_s_per_gpu", "output tok/s/GPU", _PER_SECOND, best="high"),
        Column("tokens_per_s_per_user", "tok/s/user", _PER_SECOND, best="high", note="1 / median TPOT"),
        Column("limit", "limited by"),
        Column("verdict", "verdict"),
    ]
    basis = figures["question"]["basis"]
    rows = [{**row, "verdict": row["reason"], "blended": _cost(row, basis, "blended")} for row in carried(figures)]
    return Table("ranking", "Ranking", columns, rows)


def _cost(row: Mapping[str, Any], basis: str, tokens: str) -> float | None:
    cost = row["costs"][basis]
    return None if cost is None else cost["usd_per_million_tokens"][tokens]


def cost_table(figures: Figures) -> Table:
    """Rented, reserved and bought: USD of the whole fleet, and for a million tokens on the basis of the ranking."""
    basis = figures["question"]["basis"]
    columns = [
        Column("label", "candidate"),
        Column("hour", "each", _HOURLY),
        Column("month", "a month", _WHOLE_DOLLARS, best="low"),
        Column("year", "a year", _WHOLE_DOLLARS, best="low"),
        Column("reserved", "reserved, a month", _WHOLE_DOLLARS, best="low"),
        Column("purchase", "bought, a month", _WHOLE_DOLLARS, best="low"),
        Column("input", "input", _PER_MILLION, best="low"),
        Column("output", "output", _PER_MILLION, best="low"),
        Column("blended", "blended", _PER_MILLION, best="low"),
    ]
    rows = []
    for row in carried(figures):
        costs, chosen = row["costs"], row["costs"][basis]
        listed = {name: _month(costs[name]) for name in ("reserved", "purchase")}
        if chosen is None:
            rows.append({"label": row["label"], **listed})
            continue
        rows.append(
            {
                "label": row["label"],
                "hour": chosen["usd_per_gpu_hour"],
                "month": chosen["usd_per_month"],
                "year": chosen["usd_per_year"],
                **listed,
                **chosen["usd_per_million_tokens"],
            }
        )
    return Table("costs", f"Cost ({basis})", columns, rows)


def _month(cost: Mapping[str, Any] | None) -> float | None:
    return None if cost is None else cost["usd_per_month"]


def use_table(figures: Figures) -> Table:
    """How the fleet is used at the target: share of limits, time, power."""
    columns = [
        Column("label", "candidate"),
        Column("attained", "within limits", SHARE, note="requests that meet every limit by themselves"),
        Column("attained_below", "with one replica less", SHARE),
        Column("p99_ttft_ms", "TTFT p99", Unit("ms")),
        Column("p95_tpot_ms", "TPOT p95", Unit("ms")),
        Column("utilization", "busy", SHARE),
        Column("bound", "time goes to"),
        Column("gpu_watts", "GPUs", WATTS),
        Column("wall_watts", "at the meter", WATTS, best="low"),
        Column("joules_per_output_token", "output", JOULES_PER_TOKEN, best="low"),
        Column("calibration", "calibration"),
        Column("settings", "budget/seqs"),
    ]
    rows = []
    for row in carried(figures):
        settings = row["settings"]
        run = row.get("run") or {}
        rows.append(
            {
                **row,
                "p99_ttft_ms": run.get("p99_ttft_ms"),
                "p95_tpot_ms": run.get("p95_tpot_ms"),
                "bound": _bound(row.get("bound_by")),
                "settings": f"{settings['max_num_batched_tokens']}/{settings['max_num_seqs']}",
            }
        )
    return Table("use", "The fleet at the target load", columns, rows)


def _bound(shares: Mapping[str, float] | None) -> str | None:
    if not shares:
        return None
    name, share = max(shares.items(), key=lambda item: item[1])
    return f"{RESOURCES[name]} {share:.0%}"


def lost_table(figures: Figures) -> Table:
    """Candidates that do not carry the load, and why."""
    columns = [Column("label", "candidate"), Column("reason", "why not")]
    rows = [row for row in figures["candidates"] if row["rank"] is None]
    return Table("not-carried", "Not able to carry the load", columns, rows)


def sensitivity_table(figures: Figures) -> Table:
    """Who wins if something is otherwise than assumed."""
    columns = [
        Column("question", "if"),
        Column("winner", "cheapest"),
        Column("replicas", "replicas", COUNT),
        Column("gpus", "GPUs", COUNT),
        Column("usd_per_hour", "cost", DOLLARS_PER_HOUR),
        Column("next", "next"),
        Column("next_extra_cost", "dearer by", SHARE),
        Column("verdict", "ranking"),
    ]
    rows = [
        {**row, "verdict": "-" if not index else ("another winner" if row["changed"] else "same winner")}
        for index, row in enumerate(figures["sensitivity"])
    ]
    return Table("sensitivity", "What if", columns, rows)


def price_table(figures: Figures) -> Table:
    """Every price that counts, with its date."""
    columns = [
        Column("gpu", "GPU"),
        Column("kind", "kind"),
        Column("usd", "price", _DOLLARS),
        Column("origin", "from"),
    ]
    rows = [{**price, "origin": price_origin(price)} for price in figures["prices"]]
    return Table("prices", "Prices (an hour; purchase: each GPU)", columns, rows)


def all_tables(figures: Figures) -> list[Table]:
    """Those that have rows."""
    makers = (ranking_table, cost_table, use_table, lost_table, sensitivity_table, price_table)
    return [table for table in (make(figures) for make in makers) if table.rows]
