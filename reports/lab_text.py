"""A page of the lab for the terminal: the question, the finding, a table of each part, what to look for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from servecast.sweeps.lab.experiment import Part
from servecast.sweeps.lab.rows import select
from servecast.sweeps.lab.runner import LabResult


def render_lab(result: LabResult) -> RenderableType:
    """Everything that the terminal shows of an experiment."""
    experiment = result.experiment
    parts: list[RenderableType] = [Text(f"{experiment.name}: {experiment.title}", style="bold")]
    parts += [Text(experiment.question), Text("\nFinding", style="bold"), *_listed(result.findings)]
    for part in experiment.parts:
        parts += [Text(f"\n{part.name}", style="bold"), _table(result, part)]
    return Group(*parts, Text("\nWhat to look for", style="bold"), *_listed(experiment.look_for))


def _listed(lines: Sequence[str]) -> list[RenderableType]:
    return [Text(f"- {line}") for line in lines]


def _table(result: LabResult, part: Part) -> Table:
    headers = [*part.axes, *part.columns]
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for header in headers:
        table.add_column(header, justify="left" if header in part.axes else "right")
    for row in select(result.rows, part=part.name):
        labels = [str(row[axis]) for axis in part.axes]
        table.add_row(*labels, *(_shown(row[column]) for column in part.columns))
    return table


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:,.2f}"
    return f"{value:,}" if isinstance(value, int) else str(value)
