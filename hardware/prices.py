"""What GPUs cost and draw: `hardware/prices.yaml`. Each price has its provider, date and source."""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from servecast.hardware.yaml_fields import Fields
from servecast.hardware.yaml_source import read_yaml

STALE_AFTER_DAYS = 180

_FILE = Path(__file__).with_name("prices.yaml")
_DATE = re.compile(r"(\d{4})(?:-(\d{2}))?(?:-(\d{2}))?")


@dataclass(frozen=True)
class Price:
    """One offer. usd: per GPU and hour (kind "on-demand" or "reserved"), or per GPU ("purchase").

    date: YYYY, YYYY-MM or YYYY-MM-DD, None for a price of the user's own, which does not age.
    """

    kind: str
    usd: float
    provider: str
    date: str | None
    source: str

    def age_days(self, today: datetime.date) -> int | None:
        """Days since `date`; a year or month counts from its first day."""
        return None if self.date is None else (today - read_date(self.date)).days

    def is_stale(self, today: datetime.date) -> bool:
        age = self.age_days(today)
        return age is not None and age > STALE_AFTER_DAYS

    def figures(self, today: datetime.date) -> dict[str, Any]:
        """The price as plain data for outputs."""
        return {
            "kind": self.kind,
            "usd": self.usd,
            "provider": self.provider,
            "date": self.date,
            "stale": self.is_stale(today),
            "source": self.source,
        }

    def describe(self, today: datetime.date) -> str:
        """Provider and date for a reader, with a word where it is stale."""
        if self.date is None:
            return self.provider
        stale = f", STALE: {self.age_days(today)} days old" if self.is_stale(today) else ""
        return f"{self.provider}, {self.date}{stale}"


@dataclass(frozen=True)
class GpuPrices:
    """All prices of one GPU, the hourly ones by price, cheapest first."""

    on_demand: tuple[Price, ...] = ()
    reserved: tuple[Price, ...] = ()
    purchase: Price | None = None

    def price(self, kind: str) -> Price | None:
        """The price that counts for `kind`: of several offers the lower median. None where none is known."""
        if kind == "purchase":
            return self.purchase
        offers = self.on_demand if kind == "on-demand" else self.reserved
        return offers[(len(offers) - 1) // 2] if offers else None


@dataclass(frozen=True)
class PowerModel:
    """Watts from use. Shares are of the TDP: the board idles at idle_share and draws busy_share while a step runs.

    server_w_per_tdp_w: what the server around draws in addition, for each watt of TDP. pue: watts at the meter for each
    watt in the server.
    """

    idle_share: float
    busy_share: float
    server_w_per_tdp_w: float
    pue: float

    def gpu_watts(self, tdp_w: float, busy: float) -> float:
        """Average of one board that runs steps for the share `busy` of the time."""
        return tdp_w * (self.idle_share + (self.busy_share - self.idle_share) * busy)

    def wall_watts(self, tdp_w: float, busy: float) -> float:
        """The same with its part of the server, at the meter of the building."""
        return (self.gpu_watts(tdp_w, busy) + tdp_w * self.server_w_per_tdp_w) * self.pue


@dataclass(frozen=True)
class Ownership:
    """What a bought GPU costs beside its price.

    server_price_ratio: price of server and network with the GPU, over the GPU's. residual_share: of that price, what it
    brings after `years`. hosting_usd_per_kw_month: per kW at the meter.
    """

    server_price_ratio: float
    years: float
    residual_share: float
    usd_per_kwh: float
    hosting_usd_per_kw_month: float


@dataclass(frozen=True)
class PriceBook:
    """gpus: by key of the catalogue. sources: field of power or ownership -> where its number is from."""

    gpus: Mapping[str, GpuPrices]
    power: PowerModel
    ownership: Ownership
    sources: Mapping[str, str]

    def of(self, gpu_key: str) -> GpuPrices:
        """All prices of `gpu_key`; none for a GPU that is not in the book."""
        return self.gpus.get(gpu_key, GpuPrices())


def read_date(text: str) -> datetime.date:
    """The first day that `text` means. Raises ValueError unless it is a date, month or year."""
    found = _DATE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a date of the form YYYY-MM-DD, YYYY-MM or YYYY")
    year, month, day = found.groups()
    return datetime.date(int(year), int(month or 1), int(day or 1))


@cache
def load_prices(file: Path = _FILE) -> PriceBook:
    """The book in `file`. Raises ConfigError for a wrong field."""
    fields = Fields.of_file(read_yaml(file), "prices")
    fields.only(("sources", "power", "ownership", "gpus"))
    names = fields.text_map("sources")
    gpus = fields.section("gpus")
    power, ownership = fields.section("power"), fields.section("ownership")
    return PriceBook(
        gpus={key: _gpu(gpus.section(key), names) for key in gpus.values},
        power=PowerModel(
            idle_share=power.number("idle_share"),
            busy_share=power.number("busy_share"),
            server_w_per_tdp_w=power.number("server_w_per_tdp_w", zero=True),
            pue=power.number("pue"),
        ),
        ownership=Ownership(
            server_price_ratio=ownership.number("server_price_ratio"),
            years=ownership.number("years"),
            residual_share=ownership.number("residual_share", zero=True),
            usd_per_kwh=ownership.number("usd_per_kwh", zero=True),
            hosting_usd_per_kw_month=ownership.number("hosting_usd_per_kw_month", zero=True),
        ),
        sources={**power.text_map("sources"), **ownership.text_map("sources")},
    )


def _gpu(fields: Fields, names: Mapping[str, str]) -> GpuPrices:
    fields.only(("on_demand", "reserved", "purchase"))
    purchase = _price(fields.section("purchase"), "purchase", names) if fields.has("purchase") else None
    return GpuPrices(_offers(fields, "on_demand", names), _offers(fields, "reserved", names), purchase)


def _offers(fields: Fields, key: str, names: Mapping[str, str]) -> tuple[Price, ...]:
    offers = [_price(offer, key.replace("_", "-"), names) for offer in fields.sections(key)]
    return tuple(sorted(offers, key=lambda price: (price.usd, price.provider)))


def _price(fields: Fields, kind: str, names: Mapping[str, str]) -> Price:
    fields.only(("provider", "usd", "date", "source"))
    date, source = fields.text("date"), fields.text("source")
    try:
        read_date(date)
    except ValueError as error:
        raise fields.error("date", str(error)) from None
    return Price(kind, fields.number("usd"), fields.text("provider"), date, names.get(source, source))
