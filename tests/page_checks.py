"""What must hold of every page, in a browser and against the tables beside it."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from pathlib import Path
from typing import Any

from servecast.reports.tables import Table
from servecast.reports.units import Unit

SMALLEST_READABLE_PX = 10.5


@contextmanager
def opened(browser: Any, page_file: Path, width: int = 1280, scheme: str = "light") -> Iterator[Any]:
    """The page in a tab; afterwards: it said nothing on the console and asked nobody for anything."""
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(page_file.as_uri())
    yield page
    context.close()
    assert said == []
    assert asked == [page_file.as_uri()]


def check_narrow(page: Any) -> None:
    """On a telephone: nothing sticks out to the side, and no text is too small."""
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    sizes = page.evaluate(
        """() => {
          const sizes = [];
          for (const e of document.querySelectorAll("p, li, td, th, dd, dt, small, figcaption, code, svg text")) {
            if (!e.textContent.trim() || !e.getClientRects().length) continue;
            const scale = e.ownerSVGElement ? e.ownerSVGElement.getScreenCTM().a : 1;
            sizes.push(parseFloat(getComputedStyle(e).fontSize) * scale);
          }
          return sizes;
        }"""
    )
    assert len(sizes) > 50
    assert min(sizes) >= SMALLEST_READABLE_PX


def check_print(page: Any) -> None:
    """On paper (A4 with usual margins) nothing is cut off, and what was folded is open."""
    page.set_viewport_size({"width": 718, "height": 1000})
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("document.documentElement.scrollWidth") <= 718
    assert page.locator("details:not([open])").count() == 0


def check_sorting(page: Any, table: str, column: int) -> None:
    """A click on a header sorts upward, the next one downward."""
    cells = f"#table-{table} tbody tr td:nth-child({column})"
    button = page.locator(f"#table-{table} th:nth-child({column}) button")
    read = "cells => cells.map(cell => cell.dataset.value === '' ? null : Number(cell.dataset.value))"
    button.click()
    up = [value for value in page.eval_on_selector_all(cells, read) if value is not None]
    button.click()
    down = [value for value in page.eval_on_selector_all(cells, read) if value is not None]
    assert len(set(up)) > 1
    assert up == sorted(up)
    assert down == sorted(up, reverse=True)


def check_numbers(html: str, table: Table, csv_file: Path) -> None:
    """The page's cells are those of the CSV file: exact values, and what is shown of them."""
    with csv_file.open(newline="") as file:
        _, *rows = csv.reader(file)
    body = re.search(rf'id="table-{table.name}">.*?<tbody>(.*?)</tbody>', html, re.DOTALL)
    assert body is not None, table.name
    cells = re.findall(r"<td([^>]*)>(.*?)</td>", body[1])
    assert len(cells) == len(rows) * len(table.columns)
    exact = [
        unescape(v) for attributes, _ in cells for v in re.findall(r'data-(?:value|low|high)="([^"]*)"', attributes)
    ]
    assert exact == [value for row in rows for value in row]
    for i, (_, text) in enumerate(cells):
        column = table.columns[i % len(table.columns)]
        row = dict(
            zip((header for c in table.columns for header in c.headers), rows[i // len(table.columns)], strict=True)
        )
        if column.unit is not None and column.interval is None:
            assert unescape(text) == shown(column.unit, row[column.header])


def shown(unit: Unit, exact: str) -> str:
    """How a value of a CSV file reads for people."""
    return unit.text(float(exact) / unit.scale if exact else None)
