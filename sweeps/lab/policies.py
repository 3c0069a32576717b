"""Queue policies: the finding, and who waited longest."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from servecast.model.cohorts import CohortParameters
from servecast.model.metrics import summarise
from servecast.model.simulation import SimulationParameters, run_simulation
from servecast.sweeps.lab.rows import Row, only


def measure(parameters: SimulationParameters, _labels: Mapping[str, Any]) -> dict[str, Any]:
    """The summary, the cohorts by priority, and the longest wait for admission."""
    result = run_simulation(parameters)
    by_priority = replace(result, parameters=replace(parameters, cohorts=CohortParameters("priority")))
    waits = result.requests["scheduled_s"] - result.requests["queued_s"]
    return summarise(result) | {
        "by_priority": summarise(by_priority)["cohorts"],
        "worst_wait_ms": float(np.nanmax(waits)) * 1e3,
    }


def finding(rows: Sequence[Row]) -> list[str]:
    drains = {p: only(rows, part="drains", policy=p) for p in ("fcfs", "shortest_prompt")}
    coming = {p: only(rows, part="keeps coming", policy=p) for p in ("fcfs", "shortest_prompt", "priority", "aging")}
    median, long, worst = "TTFT p50 (ms)", "long p99 (ms)", "worst wait (ms)"
    high = "high priority p50 (ms)"
    return [
        f"Draining: shortest-first brings the median TTFT from {drains['fcfs'][median]:,.0f} to "
        f"{drains['shortest_prompt'][median]:,.0f} ms; the long prompts' p99 goes from {drains['fcfs'][long]:,.0f} to "
        f"{drains['shortest_prompt'][long]:,.0f} ms.",
        f"Sustained: median {coming['fcfs'][median]:,.0f} to {coming['shortest_prompt'][median]:,.0f} ms, but the long "
        f"prompts' p99 goes from {coming['fcfs'][long]:,.0f} to {coming['shortest_prompt'][long]:,.0f} ms.",
        f"Aging: worst wait {coming['shortest_prompt'][worst]:,.0f} ms before, {coming['aging'][worst]:,.0f} ms after, "
        f"with a median of {coming['aging'][median]:,.0f} ms.",
        f"Priority: high-priority requests see a median of {coming['priority'][high]:,.0f} ms, "
        f"under fcfs {coming['fcfs'][high]:,.0f} ms.",
    ]
