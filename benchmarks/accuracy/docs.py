"""Writes the tables of docs/accuracy.md, between its markers, and the parity plots in docs/figures.

python benchmarks/accuracy/serving.py DATA/e2e --out out/accuracy
python benchmarks/accuracy/docs.py out/accuracy/rows.csv
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from serving import RATIO_OF

from servecast.reports.figures.parity import parity
from servecast.reports.figures.style import draw, save
from servecast.reports.table_formats import to_markdown
from servecast.reports.tables import Column, Table
from servecast.reports.units import COUNT, Unit
from servecast.reports.validation_tables import FIGURES, left_out_lines, parity_panels
from servecast.sweeps.validation.errors import error_table, gpu_ratios, left_out, read_rows

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "accuracy.md"
MARKERS = re.compile(r"(<!-- begin (?P<name>[\w-]+)[^>]*-->\n).*?(<!-- end -->)", re.DOTALL)
PERCENT = Unit("%", digits=3, most_decimals=1, least_decimals=1)
GROUP = ("gpu", "engine", "model", "dtype")
MAIN = ("tpot", "ttft", "throughput")


def wide_table(rows: pd.DataFrame, by: Sequence[str], figures: Sequence[str]) -> str:
    """A row a group: runs, then median, p90 and bias of each of `figures`, then the roofline's medians."""
    errors = error_table(rows, by, figures)
    if not len(errors):
        return "No run.\n"
    lines: dict[tuple[Any, ...], dict[str, Any]] = {}
    for entry in errors.to_dict("records"):
        key = (*(entry[name] for name in by), entry["rows"])
        line = lines.setdefault(key, {**{name: entry[name] for name in by}, "rows": entry["rows"], "n": entry["n"]})
        figure = entry["figure"]
        line |= {f"{figure} {name}": entry[name] for name in ("median", "p90", "bias")}
        line[f"roofline {figure}"] = entry.get("roofline median")
    shown = [figure for figure in figures if (errors["figure"] == figure).any()]
    columns = [*(Column(name, "load" if name == "regime" else name) for name in by), Column("rows", "rows")]
    columns.append(Column("n", "n", COUNT))
    for figure in shown:
        columns += [
            Column(f"{figure} {name}", f"{FIGURES[figure]} {name}", PERCENT) for name in ("median", "p90", "bias")
        ]
    columns += [Column(f"roofline {figure}", f"roofline {FIGURES[figure]}", PERCENT) for figure in shown[:2]]
    return to_markdown(Table("errors", "", columns, list(lines.values())))


def single_runs(rows: pd.DataFrame, figures: Sequence[str]) -> str:
    """A row a run: measured, predicted and error of each figure."""
    lines, columns = [], [Column("run", "run"), Column("figure", "figure")]
    for row in rows.to_dict("records"):
        for figure in figures:
            measured, predicted = row.get(f"measured_{figure}"), row.get(f"predicted_{figure}")
            values = {"measured": measured, "predicted": predicted, "error": row.get(f"error_{figure}")}
            lines.append({"run": f"{row['source']}, {row['gpu']}", "figure": FIGURES[figure], **values})
    number = Unit("", digits=4)
    columns += [Column("measured", "measured", number), Column("predicted", "predicted", number)]
    return to_markdown(Table("runs", "", [*columns, Column("error", "error", PERCENT)], lines))


def tables(rows: pd.DataFrame) -> dict[str, str]:
    """Name of a marker -> what stands between it and the end."""
    usable = rows[rows["problem"] == ""]
    today = usable[usable["aside"] == ""]
    closed = today[today["source"] == "serving_measured.csv"]
    opened = today[today["source"].str.startswith(("blis", "llmd", "B05", "cssnoeasy"))]
    whole = usable[usable["source"].str.startswith(("B01", "B02"))]
    latencies = ("ttft", "ttft_p99", "tpot", "tpot_p99", "e2el", "throughput")
    ratios = gpu_ratios(rows, *RATIO_OF).assign(fitted="", problem="")
    by = ("source", "model", "dtype")
    return {
        "in-short": wide_table(today.assign(engine=today["family"]), ("engine",), MAIN),
        "closed-loop": wide_table(closed, GROUP, MAIN),
        "closed-loop-load": wide_table(closed, ("gpu", "engine", "dtype", "regime"), MAIN),
        "open-loop": wide_table(opened, ("source", "gpu", "engine", "model"), latencies),
        "whole-runs": single_runs(whole, ("requests", "tpot", "ttft")),
        "ratios": wide_table(ratios, by, MAIN),
        "aside": wide_table(usable[usable["aside"] != ""], ("source", "gpu", "model", "dtype"), (*MAIN, "ttft_p99")),
        "left-out": "\n".join(f"- {line}" for line in left_out_lines(left_out(rows))) + "\n",
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path, help="rows.csv of serving.py --out")
    arguments = parser.parse_args()
    rows = read_rows(arguments.rows)
    made = tables(rows)
    page = PAGE.read_text(encoding="utf-8")
    missing = set(made) - {found["name"] for found in MARKERS.finditer(page)}
    if missing:
        parser.error(f"{PAGE} lacks the markers {', '.join(sorted(missing))}")
    page = MARKERS.sub(lambda found: f"{found[1]}\n{made[found['name']]}\n{found[3]}", page)
    PAGE.write_text(page, encoding="utf-8")
    today = rows[(rows["problem"] == "") & (rows["aside"] == "")]
    save(draw(parity(parity_panels(today, ("tpot", "ttft")), "ms")), ROOT / "docs" / "figures")
    print(f"{PAGE}: {', '.join(made)}")


if __name__ == "__main__":
    main()
