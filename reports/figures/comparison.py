"""Figures of a comparison alone: what each candidate costs, at the target and over the load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from servecast.reports.figures.style import LIMIT, Figure, log_ticks, thousands


@dataclass(frozen=True)
class CostOf:
    """One candidate. usd_per_hour: of its fleet at the target, from `low` to `high` (None: no upper end).

    capacity: load that a replica carries. usd_per_replica_hour: of one replica. spare: replicas beyond what is needed.
    """

    name: str
    usd_per_hour: float
    low: float
    high: float | None
    capacity: float
    usd_per_replica_hour: float
    spare: int


def cost_ranking(costs: Sequence[CostOf]) -> Figure:
    """Bars, the cheapest on top."""

    def fill(canvas: Any) -> None:
        axis = canvas.subplots()
        names = [cost.name for cost in costs]
        values = [cost.usd_per_hour for cost in costs]
        longest = max(max(values), max(cost.high or 0.0 for cost in costs))
        below = [value - cost.low for value, cost in zip(values, costs, strict=True)]
        above = [(cost.high or longest * 1.1) - value for value, cost in zip(values, costs, strict=True)]
        bars = axis.barh(names, values, xerr=[below, above], capsize=3, ecolor="gray", color="C0", alpha=0.85)
        bars[0].set_color("C2")
        axis.invert_yaxis()
        axis.grid(visible=False, axis="y")
        thousands(axis.xaxis)
        axis.set_xlabel("$ per hour of the fleet at the target load")

    return Figure(
        "cost-ranking",
        "Cost of each candidate",
        "The smallest fleet that carries the load within the limits. Lines: from the cheapest to the dearest fleet "
        "over the error of the model and the seeds; where they overlap the ranking is open.",
        fill,
        height_in=1.2 + 0.36 * len(costs),
    )


def cost_over_load(costs: Sequence[CostOf], target: float, unit: str) -> Figure:
    """Steps: a replica more where the load needs one."""

    def fill(canvas: Any) -> None:
        import numpy as np

        axis = canvas.subplots()
        loads = np.linspace(target / 50, 2 * target, 800)
        for number, cost in enumerate(costs):
            replicas = np.ceil(loads / cost.capacity - 1e-9) + cost.spare
            axis.plot(loads, replicas * cost.usd_per_replica_hour, color=f"C{number}", label=cost.name)
            axis.plot([target], [cost.usd_per_hour], "o", color=f"C{number}", markersize=6)
        axis.axvline(target, color=LIMIT, linestyle="--", linewidth=1.2, label="target")
        axis.set(xlabel=f"load ({unit})", ylabel="$ per hour", yscale="log")
        log_ticks(axis.yaxis)
        axis.set_xlim(left=0)
        canvas.legend(*axis.get_legend_handles_labels(), loc="outside lower center", ncols=2)

    return Figure(
        "cost-over-load",
        "Cost against load",
        "Replicas for each load by the capacity of one, at today's prices of this report; a step is one replica more. "
        "Dots: the fleet that was simulated at the target, which may need fewer, as many replicas even out bursts.",
        fill,
        height_in=4.2,
    )
