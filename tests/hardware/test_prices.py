"""The price list: every figure dated and sourced, the median counts, old ones are called stale."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest

from servecast.hardware.errors import ConfigError
from servecast.hardware.gpus import gpu_keys
from servecast.hardware.prices import GpuPrices, PowerModel, Price, load_prices, read_date


def offer(usd: float, date: str | None = "2026-06-01") -> Price:
    return Price("on-demand", usd, "a cloud", date, "its page")


def test_the_list_prices_gpus_of_the_catalogue_only() -> None:
    book = load_prices()
    assert set(book.gpus) <= set(gpu_keys())
    for prices in book.gpus.values():
        for price in (*prices.on_demand, *prices.reserved, *filter(None, [prices.purchase])):
            assert price.usd > 0
            assert price.source
            assert price.date
            assert read_date(price.date) <= datetime.date(2026, 12, 31)


def test_of_several_offers_the_lower_median_counts() -> None:
    assert GpuPrices((offer(1), offer(2), offer(9), offer(10))).price("on-demand") == offer(2)
    assert GpuPrices((offer(1), offer(2), offer(9))).price("on-demand") == offer(2)
    assert GpuPrices().price("on-demand") is None


def test_a_price_is_stale_after_half_a_year() -> None:
    assert not offer(1).is_stale(datetime.date(2026, 11, 28))
    assert offer(1).is_stale(datetime.date(2026, 11, 29))
    assert "STALE: 181 days old" in offer(1).describe(datetime.date(2026, 11, 29))
    assert not offer(1, date=None).is_stale(datetime.date(2036, 1, 1))


def test_a_month_counts_from_its_first_day() -> None:
    assert offer(1, "2026-01").age_days(datetime.date(2026, 2, 1)) == 31
    assert read_date("2026") == datetime.date(2026, 1, 1)


def test_power_goes_from_idle_to_busy() -> None:
    power = PowerModel(idle_share=0.1, busy_share=0.7, server_w_per_tdp_w=0.5, pue=1.2)
    assert power.gpu_watts(1000, busy=0) == pytest.approx(100)
    assert power.gpu_watts(1000, busy=0.5) == pytest.approx(400)
    assert power.wall_watts(1000, busy=1) == pytest.approx((700 + 500) * 1.2)


def test_a_wrong_date_names_its_line(tmp_path: Path) -> None:
    text = (Path(__file__).parents[2] / "hardware" / "prices.yaml").read_text()
    file = tmp_path / "prices.yaml"
    file.write_text(text.replace('date: "2026-08-21"', 'date: "August"', 1))
    with pytest.raises(ConfigError, match=r"prices.yaml:\d+: gpus.a10.purchase.date: 'August' is not a date"):
        load_prices(file)
