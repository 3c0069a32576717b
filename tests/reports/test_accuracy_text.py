"""How far a result may be trusted, in words."""

from __future__ import annotations

from typing import Any

from servecast.reports.accuracy_text import accuracy_line

ACCURACY: dict[str, Any] = {
    "tpot_pct": 5.6,
    "ttft_pct": 14.9,
    "throughput_pct": None,
    "n": {"tpot": 30, "ttft": 9},
    "basis": {"tpot": "measured runs on h100-sxm, vllm, fp8", "ttft": "measured runs on h100-sxm"},
    "widened": [],
}


def test_the_line_names_bands_and_basis() -> None:
    line = "Accuracy: TPOT within 6 %, TTFT within 15 % (9 of 10 measured runs on h100-sxm, vllm, fp8; n=30)."
    assert accuracy_line(ACCURACY) == line


def test_what_widens_a_band_is_said() -> None:
    assert accuracy_line({**ACCURACY, "widened": ["mixture of experts"]}).endswith("n=30; mixture of experts).")


def test_nothing_near_enough_is_said() -> None:
    nothing = {**ACCURACY, "tpot_pct": None, "ttft_pct": None, "basis": {}}
    assert accuracy_line(nothing) == "Accuracy: no measured run is near enough to say."
