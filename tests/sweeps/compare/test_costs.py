"""Costs of a fleet: rented, bought, by the token."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest

from servecast.configs.comparison import load_comparison
from servecast.sweeps.compare.costs import Pricing, fleet_costs, pricing_of

TODAY = datetime.date(2026, 6, 2)
FOUND: dict[str, Any] = {
    "tdp_w": 1000.0,
    "fleet": {
        "served_rate": 10.0,
        "prompt_share": 0.25,
        "run": {"utilization": 1.0, "completed": 100, "total_input_tokens": 100_000, "total_output_tokens": 20_000},
    },
}


def pricing(tmp_path: Path, text: str = "") -> Pricing:
    file = tmp_path / "c.yaml"
    file.write_text(
        "model: llama-3.1-8b\nworkload: {arrivals: {process: poisson, request_rate: 5}, lengths: {profile: 1k1k}}\n"
        "slo: ttft:p99<=1s\ngpus: [h100]\n" + text
    )
    return pricing_of(load_comparison(file))


def test_rent_is_by_gpu_and_hour(tmp_path: Path) -> None:
    own = pricing(tmp_path, "prices: {h100: {on_demand: 2.0, source: an offer}}")
    cost = fleet_costs(own, "on-demand", "h100-sxm", 8, FOUND, TODAY)
    assert cost is not None
    assert (cost["usd_per_hour"], cost["usd_per_month"], cost["usd_per_year"]) == (16.0, 16.0 * 730, 16.0 * 8760)
    assert cost["price"]["source"] == "an offer"
    assert not cost["price"]["stale"]


def test_tokens_are_those_of_the_target_load(tmp_path: Path) -> None:
    own = pricing(tmp_path, "prices: {h100: {on_demand: 3.6}}")
    cost = fleet_costs(own, "on-demand", "h100-sxm", 10, FOUND, TODAY)
    assert cost is not None
    # 36 USD an hour for 36,000 requests of 1,000 and 200 tokens; a quarter of the time goes to prompts.
    tokens = cost["usd_per_million_tokens"]
    assert tokens["blended"] == pytest.approx(36 / (36_000 * 1200) * 1e6)
    assert tokens["input"] == pytest.approx(9 / (36_000 * 1000) * 1e6)
    assert tokens["output"] == pytest.approx(27 / (36_000 * 200) * 1e6)
    assert tokens["output_only"] == pytest.approx(36 / (36_000 * 200) * 1e6)


def test_a_purchase_is_written_off_and_run(tmp_path: Path) -> None:
    text = """prices: {h100: {purchase: 30000}}
cost:
  {years: 3, residual_share: 0.2, server_price_ratio: 1.5, usd_per_kwh: 0.1, hosting_usd_per_kw_month: 146, pue: 1.5}
"""
    own = pricing(tmp_path, text)
    cost = fleet_costs(own, "purchase", "h100-sxm", 1, FOUND, TODAY)
    assert cost is not None
    kilowatts = (0.7 + 0.57) * 1.5  # of a board with a TDP of 1 kW that is always busy
    assert cost["parts_usd_per_gpu_hour"] == pytest.approx(
        {"capital": 30000 * 1.5 * 0.8 / (3 * 8760), "power": kilowatts * 0.1, "hosting": kilowatts * 0.2}
    )
    assert cost["usd_per_hour"] == pytest.approx(sum(cost["parts_usd_per_gpu_hour"].values()))


def test_what_nobody_sells_has_no_cost(tmp_path: Path) -> None:
    assert fleet_costs(pricing(tmp_path), "reserved", "l40s", 1, FOUND, TODAY) is None
    assert fleet_costs(pricing(tmp_path), "on-demand", "my-gpu", 1, FOUND, TODAY) is None


def test_own_prices_stand_beside_those_of_the_list(tmp_path: Path) -> None:
    own = pricing(tmp_path, "prices: {h100: {on_demand: 1.0}}")
    purchase = own.gpus["h100-sxm"].purchase
    assert purchase is not None
    assert purchase.usd == 30000
    assert own.gpus["h200-sxm"].price("on-demand") is not None
