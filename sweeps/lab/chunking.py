"""Chunks of a long prompt: the finding, and the longest gap between two tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from servecast.model.metrics import summarise, token_gaps_s
from servecast.model.simulation import SimulationParameters, run_simulation
from servecast.sweeps.lab.rows import Row


def measure(parameters: SimulationParameters, _labels: Mapping[str, Any]) -> dict[str, Any]:
    """The summary, and the longest gap of anybody's."""
    result = run_simulation(parameters)
    gaps, counts = token_gaps_s(result)
    return summarise(result) | {"worst_gap_ms": float(gaps[counts > 0].max()) * 1e3}


def finding(rows: Sequence[Row]) -> list[str]:
    return [
        f"Chunks {row['largest chunk']}: streams stand still for up to {row['worst gap (ms)']:,.0f} ms "
        f"(ITL p50 {row['ITL p50 (ms)']:.1f} ms); the 32k prompt has its first token after "
        f"{row['32k TTFT p50 (ms)']:,.0f} ms."
        for row in rows
    ]
