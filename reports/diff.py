"""What differs between two stored results, in one form for runs, sweeps and comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from servecast.reports.settings import flat_settings, shown
from servecast.reports.tables import Column, Table
from servecast.reports.units import PERCENT, Unit

_SETTING_COLUMNS = (Column("key", "setting"), Column("a", "A"), Column("b", "B"))
_FIGURE_COLUMNS = (
    Column("figure", "figure"),
    Column("a", "A"),
    Column("b", "B"),
    Column("change", "change", PERCENT),
    Column("interval", "interval of B - A"),
    Column("moved", "moved"),
)


@dataclass(frozen=True)
class Change:
    """From `before` to `after`, and the 95 % interval of the difference; None where there is too little to tell."""

    before: float
    after: float
    low: float | None = None
    high: float | None = None

    @property
    def moved(self) -> bool | None:
        """Whether the interval leaves out 0."""
        return None if self.low is None or self.high is None else self.low > 0 or self.high < 0


@dataclass(frozen=True)
class Diff:
    """settings: those that differ. figures: before, after and change. notes: what to know of them."""

    settings: Table
    figures: Table
    notes: Sequence[str]

    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "settings": [dict(row) for row in self.settings.rows],
            "figures": [dict(row) for row in self.figures.rows],
            "notes": list(self.notes),
        }


def settings_diff(a: Mapping[str, Any], b: Mapping[str, Any]) -> Table:
    """Settings that are not alike; "-" where one side has no such setting."""
    left, right = dict(flat_settings(a)), dict(flat_settings(b))
    rows = [
        {"key": key, "a": _side(left, key), "b": _side(right, key)}
        for key in dict.fromkeys([*left, *right])
        if left.get(key, ...) != right.get(key, ...)
    ]
    return Table("settings-that-differ", "Settings that differ", _SETTING_COLUMNS, rows)


def _side(settings: Mapping[str, Any], key: str) -> str:
    return shown(settings[key]) if key in settings else "-"


def figures_table(rows: Sequence[Mapping[str, Any]], first: Sequence[Column] = ()) -> Table:
    """rows: of `figure_row`; first: columns that say what each row is about."""
    return Table("figures", "Figures", [*first, *_FIGURE_COLUMNS], rows)


def figure_row(name: str, change: Change, unit: Unit) -> dict[str, Any]:
    """One line of the figures."""
    interval = None
    if change.low is not None and change.high is not None:
        interval = f"{_signed(unit, change.low)} to {_signed(unit, change.high)}"
    return {
        "figure": f"{name} ({unit.symbol})" if unit.symbol else name,
        "a": unit.text(change.before),
        "b": unit.text(change.after),
        "change": (change.after / change.before - 1) * 100 if change.before else None,
        "interval": interval,
        "moved": change.moved,
    }


def _signed(unit: Unit, value: float) -> str:
    return f"+{unit.text(value)}" if value > 0 else unit.text(value)
