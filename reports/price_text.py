"""What a run costs, at which price, of which date."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from servecast.reports.report import Section
from servecast.reports.tables import Column, Table
from servecast.reports.units import DOLLARS, DOLLARS_PER_HOUR, DOLLARS_PER_MILLION_TOKENS, JOULES_PER_TOKEN, WATTS

PRICE_COLUMNS = (
    Column("gpu", "GPU"),
    Column("kind", "kind"),
    Column("usd", "price", DOLLARS, note="per GPU and hour; of a purchase per GPU"),
    Column("provider", "provider"),
    Column("date", "date"),
    Column("stale", "stale"),
    Column("source", "source"),
)
_COST_COLUMNS = (
    Column("usd_per_hour", "cost", DOLLARS_PER_HOUR),
    Column("input", "input", DOLLARS_PER_MILLION_TOKENS),
    Column("output", "output", DOLLARS_PER_MILLION_TOKENS),
    Column("blended", "blended", DOLLARS_PER_MILLION_TOKENS),
    Column("gpu_watts", "power of the GPUs", WATTS),
    Column("wall_watts", "power at the meter", WATTS),
    Column("joules_per_output_token", "energy", JOULES_PER_TOKEN, note="of the GPUs, for each output token"),
)


def price_section(summary: Mapping[str, Any]) -> Iterator[Section]:
    """Nothing where the summary knows no cost."""
    cost = summary.get("cost")
    if cost is None:
        return
    row = {"usd_per_hour": cost["usd_per_hour"], **cost["usd_per_million_tokens"], **summary["energy"]}
    tables = [Table("cost", "Cost and power", _COST_COLUMNS, [row])]
    if cost["price"] is None:
        yield Section("Prices", ["No price of this GPU is known: give price.usd_per_gpu_hour."], tables=tables)
        return
    price = {"gpu": summary["accuracy"]["gpu"], **cost["price"]}
    tables.append(Table("prices", "Prices", PRICE_COLUMNS, [price]))
    yield Section("Prices", price_warnings([price]), tables=tables)


def price_warnings(prices: list[dict[str, Any]]) -> list[str]:
    """A sentence where a price is old."""
    stale = [price for price in prices if price["stale"]]
    if not stale:
        return []
    listed = ", ".join(f"{price['gpu']} ({price['date']})" for price in stale)
    return [f"STALE prices, check them before you decide: {listed}."]
