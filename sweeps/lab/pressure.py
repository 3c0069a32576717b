"""How often the preempted are preempted: the finding, and what was measured on a real engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from servecast.model.metrics import summarise
from servecast.model.simulation import SimulationParameters, run_simulation
from servecast.sweeps.lab.rows import Row

# % of requests preempted, % of these once, most of one request; source: inference-sim/inference-sim#963.
MEASURED = (7.4, 95.3, 4)


def measure(parameters: SimulationParameters, _labels: Mapping[str, Any]) -> dict[str, Any]:
    """The summary, the share of requests that were preempted, and of these the share that was once (%)."""
    result = run_simulation(parameters)
    times = result.requests["preemptions"]
    preempted, once = int((times > 0).sum()), int((times == 1).sum())
    return summarise(result) | {
        "preempted_percent": 100 * preempted / len(times),
        "once_percent": 100 * once / preempted if preempted else None,
    }


def finding(rows: Sequence[Row]) -> list[str]:
    share, once, most = MEASURED
    lines = [f"Measured: {share} % of the requests preempted, {once} % of these once, {most} times at most."]
    for row in rows:
        of_these = "" if row["once (% of these)"] is None else f"{row['once (% of these)']:.1f} % of these once, "
        lines.append(
            f"Prompts of {row['prompt mean']:,} tokens, admitted on room for {row['admitted on room for']}: "
            f"{row['share (%)']:.1f} % preempted, {of_these}{row['most preemptions']} times at most."
        )
    return lines
