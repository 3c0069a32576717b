"""Tables of results: what is in them, how each cell reads, which is the best of its column. The one place for all
formats: table_formats.py turns a `Table` into text for the terminal, Markdown, CSV and HTML.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from servecast.reports.units import NOTHING, Unit, is_nothing, words

if TYPE_CHECKING:
    import pandas as pd

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Column:
    """One column: `key` of the rows under `title`. Without a unit it is text.

    best: which end is good; the best cells are marked. interval: keys of the lower and the upper end of the value's
    interval. note: what the figure means, for those who ask.
    """

    key: str
    title: str
    unit: Unit | None = None
    best: Literal["low", "high"] | None = None
    interval: tuple[str, str] | None = None
    note: str = ""

    @property
    def header(self) -> str:
        """Title and unit."""
        return self._with_unit(self.title)

    @property
    def headers(self) -> tuple[str, ...]:
        """One for each of a cell's `exact` values."""
        ends = () if self.interval is None else (f"{self.title}, low", f"{self.title}, high")
        return tuple(self._with_unit(title) for title in (self.title, *ends))

    def _with_unit(self, title: str) -> str:
        return f"{title} ({self.unit.symbol})" if self.unit is not None and self.unit.symbol else title


@dataclass(frozen=True)
class Cell:
    """text: for people. exact: the value as CSV has it, then the ends of its interval, if the column has one."""

    text: str
    exact: tuple[str, ...]
    best: bool = False


@dataclass(frozen=True)
class Table:
    """rows: plain values by key. name: for files; letters, digits and hyphens. note: what a reader should know."""

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Row]
    note: str = ""

    def cells(self) -> list[list[Cell]]:
        """Rows of cells, in the order of the columns."""
        by_column = [_column_cells(column, self.rows) for column in self.columns]
        return [list(row) for row in zip(*by_column, strict=True)]


def table_of_frame(name: str, title: str, columns: Sequence[Column], frame: pd.DataFrame, note: str = "") -> Table:
    """`frame`, whose columns are named by the keys of `columns`; others are left out."""
    rows = frame[[key for column in columns for key in (column.key, *(column.interval or ()))]]
    # Through `object`, so that numbers become Python's own.
    return Table(name, title, columns, rows.astype(object).to_dict("records"), note)  # type: ignore[arg-type]


def _column_cells(column: Column, rows: Sequence[Row]) -> list[Cell]:
    cells = [_cell(column, row) for row in rows]
    best = _best_text(column, rows, cells)
    return [Cell(cell.text, cell.exact, best=True) if cell.text == best else cell for cell in cells]


def _cell(column: Column, row: Row) -> Cell:
    value = row.get(column.key)
    if column.unit is None:
        return Cell(words(value), ("" if is_nothing(value) else str(value),))
    ends = () if column.interval is None else tuple(row.get(key) for key in column.interval)
    text = column.unit.text(value)
    low_high = [column.unit.text(end) for end in ends]
    # An interval that is as narrow as the digits shown says nothing.
    if NOTHING not in (text, *low_high) and set(low_high) - {text}:
        text += " ({} to {})".format(*low_high)
    return Cell(text, tuple(map(column.unit.exact, (value, *ends))))


def _best_text(column: Column, rows: Sequence[Row], cells: Sequence[Cell]) -> str | None:
    """Text of the best cells. None where there is no best: nothing to choose from, or all read alike."""
    values = [row.get(column.key) for row in rows]
    numbers = [
        (float(value), cell.text)
        for value, cell in zip(values, cells, strict=True)
        if value is not None and not is_nothing(value) and not isinstance(value, str)
    ]
    if column.best is None or len({text for _, text in numbers}) < 2:
        return None
    return min(numbers)[1] if column.best == "low" else max(numbers)[1]
