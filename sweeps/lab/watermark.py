"""Watermark: the finding, and what was measured on a real engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from servecast.model.simulation import SimulationParameters
from servecast.sweeps.lab.rows import Row, simulated

# (preemptions, output tokens/s) by watermark; source: vllm-project/vllm#44594, Qwen2.5-7B on a GB200.
MEASURED = {0.0: (1065, 11582), 0.02: (400, 12134), 0.05: (187, 12167), 0.1: (168, 11835)}


def measure(parameters: SimulationParameters, labels: Mapping[str, Any]) -> dict[str, Any]:
    """The summary beside the measured figures."""
    preemptions, throughput = MEASURED[labels["watermark"]]
    measured = {"preemptions": preemptions, "output_throughput": throughput}
    return simulated(parameters, labels) | {"measured": measured}


def finding(rows: Sequence[Row]) -> list[str]:
    best = max(rows, key=lambda row: float(row["output tok/s"]))
    counts, measured = (", ".join(f"{row[key]:,}" for row in rows) for key in ("preemptions", "measured preemptions"))
    shares = ", ".join(f"{row['watermark']:.0%}" for row in rows)
    return [
        f"Watermarks {shares}: {counts} preemptions simulated; {measured} measured.",
        f"Throughput is highest at {best['watermark']:.0%}: {best['output tok/s']:,.0f} tok/s "
        f"(measured there: {best['measured tok/s']:,}).",
    ]
