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
    Column("name", "of"),
    Column("usd_per_hour", "cost", DOLLARS_PER_HOUR),
    Column("input", "input", DOLLARS_PER_MILLION_TOKENS),
    Column("output", "output", DOLLARS_PER_MILLION_TOKENS),
    Column("blended", "blended", DOLLARS_PER_MILLION_TOKENS),
    Column("gpu_watts", "power of the GPUs", WATTS),
    Column("wall_watts", "power at the meter", WATTS),
    Column("joules_per_output_token", "energy", JOULES_PER_TOKEN, note="of the GPUs, for each output token"),
)


def price_section(summary: Mapping[str, Any]) -> Iterator[Section]:
    """Cost, power and price of one result; nothing where its summary knows no cost."""
    yield from prices_section({str(summary["accuracy"]["gpu"]): summary})


def prices_section(by_name: Mapping[str, Mapping[str, Any]]) -> Iterator[Section]:
    """The same for several results side by side."""
    known = {name: summary for name, summary in by_name.items() if "cost" in summary}
    if not known:
        return
    costs = [
        {
            "name": name,
            "usd_per_hour": summary["cost"]["usd_per_hour"],
            **summary["cost"]["usd_per_million_tokens"],
            **summary["energy"],
        }
        for name, summary in known.items()
    ]
    prices = {summary["accuracy"]["gpu"]: summary["cost"]["price"] for summary in known.values()}
    rows = [{"gpu": gpu, **price} for gpu, price in prices.items() if price is not None]
    unknown = [gpu for gpu, price in prices.items() if price is None]
    words = price_warnings(rows)
    if unknown:
        words.append(f"No price is known of {', '.join(unknown)}: give price.usd_per_gpu_hour.")
    tables = [Table("cost", "Cost and power", _COST_COLUMNS, costs)]
    if rows:
        tables.append(Table("prices", "Prices", PRICE_COLUMNS, rows))
    yield Section("Prices", words, tables=tables)


def price_warnings(prices: list[dict[str, Any]]) -> list[str]:
    """A sentence where a price is old."""
    stale = [price for price in prices if price["stale"]]
    if not stale:
        return []
    listed = ", ".join(f"{price['gpu']} ({price['date']})" for price in stale)
    return [f"STALE prices, check them before you decide: {listed}."]
