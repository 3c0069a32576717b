"""A `Table` for the terminal (Rich), as Markdown, as CSV and as HTML."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING, Literal

from servecast.reports.tables import Cell, Column, Table

if TYPE_CHECKING:
    from rich.table import Table as RichTable

# Marks the best of a column where bold letters may not be seen.
BEST = " *"


def to_rich(table: Table) -> RichTable:
    """For the terminal, without the title; `*` and bold letters mark the best of a column."""
    from rich.table import Table as RichTable
    from rich.text import Text

    rich = RichTable(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    marked = _columns_with_best(table)
    for i, (column, width) in enumerate(zip(table.columns, _widths(table), strict=True)):
        # What names a row, and numbers, cannot be read in pieces; a narrow terminal breaks the line instead.
        whole = i == 0 or column.unit is not None
        justify: Literal["left", "right"] = "left" if column.unit is None else "right"
        rich.add_column(Text(column.header), justify=justify, overflow="fold", min_width=width if whole else None)
    for row in table.cells():
        rich.add_row(
            *(
                Text(_marked(cell) if column.key in marked else cell.text, style="bold" if cell.best else "")
                for column, cell in zip(table.columns, row, strict=True)
            )
        )
    return rich


def _widths(table: Table) -> list[int]:
    """Characters of the longest cell of each column."""
    rows = table.cells()
    return [max((len(row[i].text) for row in rows), default=0) for i in range(len(table.columns))]


def _columns_with_best(table: Table) -> set[str]:
    return {column.key for row in table.cells() for column, cell in zip(table.columns, row, strict=True) if cell.best}


def _marked(cell: Cell) -> str:
    # The others are as much longer, so that numbers stand below each other.
    return cell.text + (BEST if cell.best else " " * len(BEST))


def to_markdown(table: Table) -> str:
    """A table of GitHub's Markdown, without the title; the best of a column is bold."""
    lines = [[_escaped(column.header) for column in table.columns]]
    lines.append(["---" if column.unit is None else "---:" for column in table.columns])
    lines += [
        [f"**{_escaped(cell.text)}**" if cell.best else _escaped(cell.text) for cell in row] for row in table.cells()
    ]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _escaped(text: str) -> str:
    for letter in "\\|*_`<[":
        text = text.replace(letter, f"\\{letter}")
    return " ".join(text.split())


def to_csv(table: Table) -> str:
    """Exact values; an interval has columns of its own."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(header for column in table.columns for header in column.headers)
    for row in table.cells():
        writer.writerow(value for cell in row for value in cell.exact)
    return file.getvalue()


def to_html(table: Table) -> str:
    """A `<table>` whose cells also carry the exact values (`data-value`); user text is escaped."""
    from servecast.reports.templates import render

    return render("table.html", table=table, rows=table.cells(), is_text=_is_text)


def _is_text(column: Column) -> bool:
    return column.unit is None
