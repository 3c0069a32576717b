"""Rows of an experiment's table, and how findings look things up in them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from servecast.model.metrics import summarise
from servecast.model.simulation import SimulationParameters, run_simulation

Row = Mapping[str, Any]


def select(rows: Iterable[Row], **where: Any) -> list[Row]:
    """Rows with these values."""
    return [row for row in rows if all(row.get(key) == value for key, value in where.items())]


def only(rows: Iterable[Row], **where: Any) -> Row:
    """The one row with these values."""
    (row,) = select(rows, **where)
    return row


def percent(new: float, old: float) -> str:
    """How much `new` is above or below `old`, such as "12 % more"."""
    change = new / old - 1
    return f"{abs(change):.0%} {'more' if change >= 0 else 'less'}"


def simulated(parameters: SimulationParameters, _labels: Mapping[str, Any]) -> dict[str, Any]:
    """The summary of the simulation."""
    return summarise(run_simulation(parameters))


@dataclass(frozen=True)
class Page:
    """What an experiment has in code. finding: the rows -> sentences. measure: the figures of one point."""

    finding: Callable[[Sequence[Row]], list[str]]
    measure: Callable[[SimulationParameters, Mapping[str, Any]], Mapping[str, Any]] = simulated
