"""Error bands from errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from servecast.sweeps.validation.bands import bands, error_band

RUN = {
    "problem": "",
    "aside": "",
    "fitted": "",
    "unsettled": "",
    "kind": "dense",
    "link": "one",
    "gpu": "h100-sxm",
    "engine": "vllm-0.19",
    "family": "vllm",
    "dtype": "fp8 kv fp8",
    "regime": "light",
    "process": "closed_loop",
    "load": "512/256, 4 clients",
}


def rows(count: int, error: float = 5.0, **changes: str) -> pd.DataFrame:
    """`count` equal runs."""
    errors = {"error_tpot": error, "unmeasured_error_tpot": 3 * error, "error_throughput": error}
    return pd.DataFrame([{**RUN, **errors, **changes}] * count)


def only(found: list[dict[str, Any]], **where: object) -> dict[str, Any]:
    (entry,) = [e for e in found if all(e.get(key) == value for key, value in where.items())]
    return entry


def test_a_band_covers_nine_of_ten_further_runs() -> None:
    rng = np.random.default_rng(0)
    inside = [
        abs(rng.normal(0, 4)) <= error_band(rng.normal(0, 4, n).tolist()) for n in (6, 9, 30) for _ in range(3000)
    ]
    assert np.mean(inside) == pytest.approx(0.91, abs=0.015)


def test_a_band_of_19_runs_is_the_second_largest_error() -> None:
    assert error_band([*range(1, 18), 90, -50]) == 50


def test_few_runs_give_a_wide_band() -> None:
    assert error_band([5, -5, 5, -5, 5]) == pytest.approx(5 * 2.015, rel=1e-3)
    assert error_band([5] * 30) == 5


def test_runs_are_grouped_from_near_to_far() -> None:
    found = bands(pd.concat([rows(10), rows(10, 9.0, regime="overload"), rows(10, 12.0, gpu="h200-sxm")]))
    own = {"scope": "measured", "figure": "tpot", "gpu": "h100-sxm", "engine": "vllm", "dtype": "fp8"}
    assert only(found, **own, load="light")["band"] == 5
    assert only(found, **own, load=None)["n"] == 20
    assert only(found, scope="measured", figure="tpot", gpu=None, engine=None)["n"] == 30
    assert only(found, scope="unmeasured", figure="tpot", engine="vllm", dtype=None)["median"] == 27


def test_too_few_runs_make_no_band() -> None:
    assert bands(rows(4)) == []


def test_fitted_runs_are_left_out_or_marked() -> None:
    test, fit = rows(6, 8.0), rows(20, 1.0, fitted="tpot ttft")
    assert (
        only(bands(pd.concat([test, fit])), scope="measured", figure="tpot", engine="vllm", dtype=None, gpu=None)["n"]
        == 6
    )
    alone = only(bands(fit), scope="measured", figure="tpot", gpu="h100-sxm", load="light")
    assert (alone["n"], alone["in_sample"]) == (20, True)


def test_runs_that_stand_aside_count_only_for_experts_and_pcie() -> None:
    aside = pd.concat([rows(6, 50.0, aside="old"), rows(6, 50.0, aside="old", kind="moe"), rows(6, 50.0, link="pcie")])
    found = bands(pd.concat([rows(10), aside]))
    assert only(found, scope="measured", figure="tpot", gpu="h100-sxm", load="light")["n"] == 10
    assert only(found, kind="moe", engine="vllm", gpu=None, figure="tpot")["band"] > 50
    assert only(found, link="pcie", engine="vllm", figure="tpot")["n"] == 6


def test_throughput_of_an_open_loop_that_keeps_up_says_nothing() -> None:
    assert not [entry for entry in bands(rows(10, process="poisson")) if entry["figure"] == "throughput"]
    assert [entry for entry in bands(rows(10, process="poisson", regime="overload")) if entry["figure"] == "throughput"]


def test_figures_that_follow_from_an_unknown_setting_make_no_band() -> None:
    found = bands(pd.concat([rows(10), rows(10, 90.0, unsettled="tpot")]))
    assert only(found, scope="measured", figure="tpot", gpu="h100-sxm", load="light")["n"] == 10


def test_offline_throughput_stands_for_tpot_where_little_else_was_measured() -> None:
    offline = rows(6, link="pcie", process="batch").assign(error_tpot=float("nan"), error_throughput=25.0)
    assert only(bands(offline), link="pcie", engine="vllm", figure="tpot")["median"] == 20
