"""Tables of predicted against measured, for the terminal and as Markdown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table

if TYPE_CHECKING:
    import pandas as pd

_PERCENT = ("median", "p90", "worst", "bias")
FIGURES = {
    "tpot": "TPOT",
    "ttft": "mean TTFT",
    "throughput": "tokens/s",
    "e2el": "mean E2EL",
    "requests": "requests/s",
    "tpot_p99": "p99 TPOT",
    "ttft_p50": "p50 TTFT",
    "ttft_p90": "p90 TTFT",
    "ttft_p99": "p99 TTFT",
    "e2el_p99": "p99 E2EL",
}


def error_columns(table: pd.DataFrame) -> pd.DataFrame:
    """The table of `error_table` as text: figures by their names, errors with one digit and a percent sign."""
    shown = table.copy()
    if "figure" in shown:
        shown["figure"] = shown["figure"].map(FIGURES)
    for column in shown.columns:
        if column in _PERCENT or column.endswith(" median"):
            sign = "+" if column == "bias" else ""
            shown[column] = [f"{value:{sign}.1f} %" if value == value else "-" for value in shown[column]]
    return shown.astype(str)


def markdown(table: pd.DataFrame) -> str:
    """A Markdown table of text cells; numbers stand at the right."""
    right = [_is_number(table[column].iloc[0]) if len(table) else False for column in table.columns]
    lines = [list(map(str, table.columns)), ["---:" if number else "---" for number in right]]
    lines += [list(map(str, row)) for row in table.itertuples(index=False)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def terminal_table(table: pd.DataFrame) -> Table:
    """The same for the terminal."""
    shown = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    for column in table.columns:
        number = len(table) > 0 and _is_number(table[column].iloc[0])
        shown.add_column(str(column), justify="right" if number else "left", no_wrap=True)
    for row in table.itertuples(index=False):
        shown.add_row(*map(str, row))
    return shown


def _is_number(cell: object) -> bool:
    return str(cell).removesuffix(" %").lstrip("+-").replace(".", "", 1).replace(",", "").isdigit()
