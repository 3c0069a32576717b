"""Swap against recompute, priced alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from servecast.model.crossover import swap_is_cheaper
from servecast.model.simulation import SimulationParameters, preemption_costs
from servecast.sweeps.lab.rows import Row, select

_LONGEST_TOKENS = 32768


def measure(parameters: SimulationParameters, labels: Mapping[str, Any]) -> dict[str, Any]:
    """Cost of both ways for a context, or the ranges in which swap is cheaper."""
    costs, block_size = preemption_costs(parameters), parameters.layout.block_size
    context = labels.get("context")
    if context is None:
        found = swap_is_cheaper(costs, block_size, _LONGEST_TOKENS)
        return {"ranges": "; ".join(f"{low:,}-{high:,}" for low, high in found) or "none"}
    blocks = -(-context // block_size)
    return {"swap_ms": costs.swap_s(blocks) * 1e3, "recompute_ms": costs.recompute_s(context) * 1e3}


def finding(rows: Sequence[Row]) -> list[str]:
    ranges = "swap is cheaper at (tokens)"
    return [
        f"{row['model']} on {row['GPU']}: swap is cheaper at {row[ranges]} tokens."
        for row in select(rows, part="ranges")
    ]
