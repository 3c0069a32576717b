"""What a fleet costs: rented by the hour, reserved, or bought and run."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from servecast.configs.comparison import Comparison, own_prices
from servecast.hardware.prices import GpuPrices, Ownership, PowerModel, Price, PriceBook, load_prices
from servecast.model.cost import MILLION

HOURS_PER_MONTH, HOURS_PER_YEAR = 730.0, 8760.0
BASES = ("on-demand", "reserved", "purchase")


@dataclass(frozen=True)
class HourlyCost:
    """USD of one GPU for an hour. price: what it rests on. parts: of a purchase: capital, power, hosting."""

    usd: float
    price: Price
    parts: Mapping[str, float]


@dataclass(frozen=True)
class Pricing:
    """What is paid for: the price list, with the comparison's own figures in place of its."""

    basis: str
    gpus: Mapping[str, GpuPrices]
    ownership: Ownership
    power: PowerModel

    def hourly(self, gpu_key: str, basis: str, tdp_w: float, busy: float) -> HourlyCost | None:
        """One GPU that runs steps for the share `busy` of the time; None where no price is known.

        purchase: (price of GPU and server - residual) over the hours of use, power at the meter, and hosting.
        """
        price = self.gpus.get(gpu_key, GpuPrices()).price(basis)
        if price is None:
            return None
        if basis != "purchase":
            return HourlyCost(price.usd, price, {})
        own, kilowatts = self.ownership, self.power.wall_watts(tdp_w, busy) / 1e3
        parts = {
            "capital": price.usd * own.server_price_ratio * (1 - own.residual_share) / (own.years * HOURS_PER_YEAR),
            "power": kilowatts * own.usd_per_kwh,
            "hosting": kilowatts * own.hosting_usd_per_kw_month / HOURS_PER_MONTH,
        }
        return HourlyCost(sum(parts.values()), price, parts)


def pricing_of(comparison: Comparison, book: PriceBook | None = None) -> Pricing:
    """The pricing of a comparison, over `book` (default: the price list that ships)."""
    book = book or load_prices()
    gpus = dict(book.gpus)
    for key, section in own_prices(comparison).items():
        known, own = book.of(key), section
        gpus[key] = GpuPrices(
            known.on_demand if own.on_demand is None else (_own("on-demand", own.on_demand, own.source),),
            known.reserved if own.reserved is None else (_own("reserved", own.reserved, own.source),),
            known.purchase if own.purchase is None else _own("purchase", own.purchase, own.source),
        )
    given = comparison.cost
    names = ("years", "residual_share", "server_price_ratio", "usd_per_kwh", "hosting_usd_per_kw_month")
    changes = {name: value for name in names if (value := getattr(given, name)) is not None}
    power = book.power if given.pue is None else replace(book.power, pue=given.pue)
    return Pricing(given.basis, gpus, replace(book.ownership, **changes), power)


def _own(kind: str, usd: float, source: str) -> Price:
    return Price(kind, usd, source, None, source)


def fleet_costs(
    pricing: Pricing, basis: str, gpu_key: str, gpus: int, found: Mapping[str, Any], today: datetime.date
) -> dict[str, Any] | None:
    """What `gpus` GPUs cost under `basis`; None without a price. found: of `evaluate`, with a fleet that was simulated.

    For a million tokens at the target load without headroom: input and output split as in model/cost.py.
    """
    run, fleet = found["fleet"]["run"], found["fleet"]
    hourly = pricing.hourly(gpu_key, basis, found["tdp_w"], run["utilization"])
    if hourly is None:
        return None
    per_hour = hourly.usd * gpus
    rate = fleet["served_rate"] * 3600
    inputs, outputs = (rate * run[f"total_{kind}_tokens"] / run["completed"] for kind in ("input", "output"))
    share = fleet["prompt_share"]
    return {
        "usd_per_gpu_hour": hourly.usd,
        "usd_per_hour": per_hour,
        "usd_per_month": per_hour * HOURS_PER_MONTH,
        "usd_per_year": per_hour * HOURS_PER_YEAR,
        "usd_per_million_tokens": {
            "input": per_hour * share / inputs * MILLION,
            "output": per_hour * (1 - share) / outputs * MILLION,
            "blended": per_hour / (inputs + outputs) * MILLION,
            "output_only": per_hour / outputs * MILLION,
        },
        "parts_usd_per_gpu_hour": dict(hourly.parts),
        "price": hourly.price.figures(today),
    }
