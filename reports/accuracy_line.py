"""How far a result may be trusted, in one line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_FIGURES = (("tpot", "TPOT"), ("ttft", "TTFT"), ("throughput", "throughput"))


def accuracy_line(accuracy: Mapping[str, Any]) -> str:
    """`Accuracy: TPOT within 6 %, TTFT within 15 % (9 of 10 measured runs on h100-sxm, vllm, fp8; n=30).`"""
    known = [(key, name) for key, name in _FIGURES if accuracy[f"{key}_pct"] is not None]
    if not known:
        return "Accuracy: no measured run is near enough to say."
    bands = ", ".join(f"{name} within {accuracy[f'{key}_pct']:.0f} %" for key, name in known)
    first, _ = known[0]
    basis = f"{accuracy['basis'][first]}; n={accuracy['n'][first]}"
    widened = f"; {'; '.join(accuracy['widened'])}" if accuracy["widened"] else ""
    return f"Accuracy: {bands} (9 of 10 {basis}{widened})."
