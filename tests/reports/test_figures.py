"""Figures: drawn alike from alike numbers, with the parts that a page relies on."""

from __future__ import annotations

import re
from collections.abc import Callable

import pandas as pd
import pytest

from servecast.model.slo import parse_slo
from servecast.reports.figures.load import cost_vs_load, heat_map, latency_vs_load, throughput_per_gpu
from servecast.reports.figures.parity import parity
from servecast.reports.figures.roofline import roofline
from servecast.reports.figures.run import latency_cdfs, time_by_cause
from servecast.reports.figures.style import GRID, INK, PAPER, Figure, draw

SKUS = ["h100-sxm", "l40s"]


def loads(**columns: list[float]) -> pd.DataFrame:
    """Two series of three loads."""
    return pd.DataFrame({"series": [SKUS[0]] * 3 + [SKUS[1]] * 3, "load": [1.0, 2.0, 4.0] * 2, **columns})


def a_roofline(scale: float) -> dict[str, object]:
    decode = {"tokens": 9.0, "flop_per_byte": 8.0, "tflops": 18.0 * scale}
    return {"peak_tflops": 989.0 * scale, "memory_gb_per_s": 3350.0, "prefill": None, "decode": decode}


LATENCIES = loads(
    value_ms=[100, 120, 900, 300, 5000, 60000],
    low_ms=[90, 110, 800, 270, 4500, 54000],
    high_ms=[110, 130, 1000, 330, 5500, 66000],
)
QUANTILES = pd.DataFrame(
    {"cohort": "all", "metric": ["ttft", "tpot", "itl", "e2el"] * 3, "percentile": [0.0] * 4 + [50.0] * 4 + [100.0] * 4}
)
QUANTILES["value_ms"] = [10.0, 5, 4, 100, 20, 8, 7, 900, 600, 9, 40, 4000]

MEASURED = pd.DataFrame({"measured": [8.0, 20], "predicted": [9.0, 19], "group": SKUS})
FIGURES: dict[str, Callable[[], Figure]] = {
    "latency-cdf": lambda: latency_cdfs(QUANTILES, parse_slo("ttft:p99<=500ms tpot:50").limits),
    "time-by-cause": lambda: time_by_cause({sku: {"compute": 0.7, "weights_bandwidth": 0.3} for sku in SKUS}),
    "roofline": lambda: roofline({"h100-sxm": a_roofline(1.0), "l40s": a_roofline(0.4)}),
    "latency-vs-load": lambda: latency_vs_load(
        {"TTFT p99": (LATENCIES, 500.0), "TPOT p95": (LATENCIES, None)}, "req/s"
    ),
    "throughput-per-gpu": lambda: throughput_per_gpu(
        loads(tokens_per_s_per_user=[120, 90, 40, 60, 40, 20], tokens_per_s_per_gpu=[300, 900, 2000, 100, 400, 700])
    ),
    "cost-vs-load": lambda: cost_vs_load(loads(cost=[3, 2, 1, 2, 1, 0.5], meets=[1, 1, 1, 1, 1, 0]), "req/s", "$"),
    "heat-map-cost": lambda: heat_map(loads(cost=[3, 2, 1, 2, 1, 0.01]), "load", "series", "cost", "cost ($)"),
    "parity": lambda: parity(
        {"TPOT": pd.DataFrame({"measured": [8.0, 20], "predicted": [9.0, 19], "group": SKUS})}, "ms"
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_the_same_numbers_give_the_same_file(name: str) -> None:
    first, second = draw(FIGURES[name]()), draw(FIGURES[name]())
    assert first.figure.name == name
    assert first.svg == second.svg
    assert first.png.startswith(b"\x89PNG")
    assert first.figure.caption.endswith(".")


def test_labels_are_text_and_name_what_is_drawn() -> None:
    svg = draw(FIGURES["latency-vs-load"]()).svg
    for words in (*SKUS, "limit", "req/s", "TTFT p99", "ms"):
        assert f">{words}</text>" in svg


def test_on_a_page_ids_are_its_own_and_ink_follows_the_page() -> None:
    inline = draw(FIGURES["roofline"]()).inline_svg
    assert all(id.startswith("roofline-") for id in re.findall(r'\bid="([^"]*)"', inline))
    assert all(link.startswith("roofline-") for link in re.findall(r'(?:href="#|url\(#)([^")]*)', inline))
    assert not any(colour in inline for colour in (INK, GRID, PAPER))
    assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", inline)
