"""One table in four formats."""

from __future__ import annotations

import csv
import io
import re
from html import unescape

import pandas as pd
import pytest
from rich.console import Console

from servecast.reports.table_formats import to_csv, to_html, to_markdown, to_rich
from servecast.reports.tables import Column, Table, table_of_frame
from servecast.reports.units import COUNT, DOLLARS_PER_HOUR, MS

COLUMNS = (
    Column("gpu", "GPU"),
    Column("ttft", "TTFT p99", MS, best="low", interval=("low", "high"), note="time to first token"),
    Column("gpus", "GPUs", COUNT),
    Column("cost", "Cost", DOLLARS_PER_HOUR, best="low"),
)
FRAME = pd.DataFrame(
    {
        "gpu": ["h100-sxm", "l40s", "<b>a|b</b>"],
        "ttft": [123.456, 1041.2, None],
        "low": [110.0, 990.0, None],
        "high": [140.0, 1100.0, None],
        "gpus": [6, 12, 4],
        "cost": [18.0, 12.0, 12.001],
    }
)


@pytest.fixture
def table() -> Table:
    return table_of_frame("gpus", "GPUs compared", COLUMNS, FRAME, note="Prices of <today>")


def test_markdown_marks_the_best_and_names_the_units(table: Table) -> None:
    header, _, h100, l40s, odd = to_markdown(table).splitlines()
    assert header == "| GPU | TTFT p99 (ms) | GPUs | Cost ($/h) |"
    assert h100 == "| h100-sxm | **123 (110 to 140)** | 6 | 18.00 |"
    # What reads alike is equally good.
    assert l40s.endswith("| **12.00** |")
    assert odd == r"| \<b>a\|b\</b> | - | 4 | **12.00** |"


def test_csv_has_the_exact_values_and_the_interval_in_columns_of_its_own(table: Table) -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(table))))
    assert rows[0] == {
        "GPU": "h100-sxm",
        "TTFT p99 (ms)": "123.456",
        "TTFT p99, low (ms)": "110",
        "TTFT p99, high (ms)": "140",
        "GPUs": "6",
        "Cost ($/h)": "18",
    }
    assert rows[2]["TTFT p99 (ms)"] == ""


def test_html_carries_the_same_numbers_as_csv(table: Table) -> None:
    html, rows = to_html(table), list(csv.reader(io.StringIO(to_csv(table))))
    exact = [unescape(value) for value in re.findall(r'data-(?:value|low|high)="([^"]*)"', html)]
    assert exact == [value for row in rows[1:] for value in row]


def test_html_escapes_what_users_wrote(table: Table) -> None:
    html = to_html(table)
    assert "&lt;b&gt;a|b&lt;/b&gt;" in html
    assert "Prices of &lt;today&gt;" in html
    assert "<b>" not in html


def test_the_terminal_marks_the_best_with_a_star(table: Table) -> None:
    file = io.StringIO()
    Console(file=file, width=100).print(to_rich(table))
    assert "123 (110 to 140) *" in file.getvalue()
    assert file.getvalue().splitlines()[0].split("  ")[0] == "GPU"


def test_nothing_is_best_where_all_are_alike() -> None:
    alike = Table("alike", "Alike", (Column("ms", "time", MS, best="low"),), [{"ms": 1.001}, {"ms": 1.002}])
    assert "**" not in to_markdown(alike)
