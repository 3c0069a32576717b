"""Cost and energy of runs whose steps take a known time."""

from __future__ import annotations

import pytest

from builders import clock_engine, run, trace
from servecast.hardware.prices import PowerModel
from servecast.model.cost import energy, prefill_share, token_costs


def test_cost_is_that_of_the_gpus_while_the_run_lasts() -> None:
    # 1 prompt step and 9 decode steps of 1 s each, at 36 USD an hour: 0.01 USD a second.
    result = run(trace([(0.0, 16, 10)]), engine=clock_engine(1.0))
    cost = token_costs(result, 36.0)
    assert cost["usd_per_hour"] == 36.0
    assert prefill_share(result) == pytest.approx(0.1)
    assert cost["usd_per_million_tokens"] == pytest.approx(
        {"input": 0.01 / 16 * 1e6, "output": 0.09 / 10 * 1e6, "blended": 0.1 / 26 * 1e6, "output_only": 0.1 / 10 * 1e6}
    )


def test_input_and_output_add_up_to_all_of_the_cost() -> None:
    result = run(trace([(0.0, 100, 7), (2.5, 300, 4), (3.0, 20, 30)]))
    per_million = token_costs(result, 5.0)["usd_per_million_tokens"]
    inputs, outputs = 420, 41
    total = per_million["input"] * inputs + per_million["output"] * outputs
    assert total == pytest.approx(per_million["blended"] * (inputs + outputs))


def test_each_replica_is_paid_for() -> None:
    one, two = (token_costs(run(trace([(0.0, 16, 10)]), replicas=n), 3.0) for n in (1, 2))
    assert two["usd_per_hour"] == 2 * one["usd_per_hour"]


def test_without_a_price_there_is_no_cost() -> None:
    cost = token_costs(run(trace([(0.0, 16, 10)])), None)
    assert cost["usd_per_hour"] is None
    assert set(cost["usd_per_million_tokens"].values()) == {None}


def test_energy_is_shared_out_over_the_tokens() -> None:
    result = run(trace([(0.0, 16, 10)]), engine=clock_engine(1.0))
    power = PowerModel(idle_share=0.1, busy_share=0.5, server_w_per_tdp_w=0.0, pue=1.0)
    figures = energy(result, 1.0, power)
    assert figures["gpu_watts"] == figures["wall_watts"] == pytest.approx(350)
    assert figures["joules_per_output_token"] == pytest.approx(350 * 10 / 10)
    assert figures["joules_per_token"] == pytest.approx(350 * 10 / 26)
