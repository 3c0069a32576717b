"""Tables of predicted against measured."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from servecast.reports.tables import Column, Table, table_of_frame
from servecast.reports.units import COUNT, MIXED, Unit

if TYPE_CHECKING:
    import pandas as pd

# Name of a figure of measured runs -> as people read it.
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
# Those in ms.
TIMES = tuple(name for name in FIGURES if name not in ("throughput", "requests"))
_PERCENT = Unit("%", digits=3, most_decimals=1, least_decimals=1)
_VARIANT = " median"


def error_columns(by: Sequence[str], table: pd.DataFrame) -> list[Column]:
    """Columns of a table of errors: what the runs of a row have in common, then statistics of their errors."""
    others = [key for key in table.columns if key.endswith(_VARIANT)]
    return [
        *(Column(key, "load" if key == "regime" else key) for key in by),
        Column("figure", "figure"),
        Column("rows", "rows"),
        Column("n", "n", COUNT),
        Column("median", "median", _PERCENT),
        Column("p90", "p90", _PERCENT),
        Column("worst", "worst", _PERCENT),
        Column("bias", "bias", _PERCENT),
        *(Column(key, key, _PERCENT) for key in others),
    ]


def errors_of_groups(table: pd.DataFrame, by: Sequence[str]) -> Table:
    """The table that `error_table` makes of groups `by`."""
    named = table.assign(figure=table["figure"].map(FIGURES))
    note = "Size of (predicted/measured - 1); bias: its median with sign, above 0 where the prediction is too large."
    return table_of_frame("errors", "Errors by group", error_columns(by, table), named, note)


def worst_runs(worst: pd.DataFrame, figures: Sequence[str]) -> Table:
    """Runs with the largest errors, of `worst_rows`."""
    columns = [Column(key, key) for key in ("place", "gpu", "engine", "model", "layout", "load", "regime")]
    for figure in figures:
        columns += [
            Column(f"measured_{figure}", f"{FIGURES[figure]}, measured", MIXED),
            Column(f"predicted_{figure}", "predicted", MIXED),
            Column(f"error_{figure}", "error", _PERCENT),
        ]
    return table_of_frame("worst", "Runs with the largest errors", columns, worst)


def parity_panels(rows: pd.DataFrame, figures: Sequence[str]) -> dict[str, pd.DataFrame]:
    """Panels of a parity figure, as far as `figures` were compared. rows: of `rows_frame`."""
    panels = {}
    for figure in figures:
        error = f"error_{figure}"
        points = rows[rows[error].notna()] if error in rows else rows[:0]
        if len(points):
            columns = {"measured": points[f"measured_{figure}"], "predicted": points[f"predicted_{figure}"]}
            panels[FIGURES[figure]] = points.assign(**columns, group=points["gpu"] + ", " + points["family"])
    return panels


def left_out_lines(reasons: Sequence[tuple[str, int]]) -> list[str]:
    """Runs and figures that are not compared, as lines of text."""
    return [f"{number} {'run' if number == 1 else 'runs'}: {why}" for why, number in reasons]
