"""A page of the lab for the terminal: the question, the finding, a table of each part, what to look for."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from servecast.reports.table_formats import to_rich
from servecast.reports.tables import Column, Table
from servecast.reports.units import MIXED
from servecast.sweeps.lab.experiment import Part
from servecast.sweeps.lab.rows import select
from servecast.sweeps.lab.runner import LabResult


def render_lab(result: LabResult) -> RenderableType:
    """Everything that the terminal shows of an experiment."""
    experiment = result.experiment
    parts: list[RenderableType] = [Text(f"{experiment.name}: {experiment.title}", style="bold")]
    parts += [Text(experiment.question), Text("\nFinding", style="bold"), *_listed(result.findings)]
    for part in experiment.parts:
        parts += [Text(f"\n{part.name}", style="bold"), to_rich(_table(result, part))]
    return Group(*parts, Text("\nWhat to look for", style="bold"), *_listed(experiment.look_for))


def _listed(lines: Sequence[str]) -> list[RenderableType]:
    return [Text(f"- {line}") for line in lines]


def _table(result: LabResult, part: Part) -> Table:
    columns = [*(Column(axis, axis) for axis in part.axes), *(Column(name, name, MIXED) for name in part.columns)]
    return Table(part.name, part.name, columns, select(result.rows, part=part.name))
