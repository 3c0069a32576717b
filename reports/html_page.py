"""A report as one HTML file that needs nothing else, and its tables and figures as files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from markupsafe import Markup

from servecast.reports.figures.style import DrawnFigure, draw, save
from servecast.reports.report import Report
from servecast.reports.table_formats import to_csv, to_html, to_markdown
from servecast.reports.templates import render


def draw_figures(report: Report) -> Mapping[str, DrawnFigure]:
    """All figures by name."""
    return {figure.name: draw(figure) for figure in report.figures()}


def html_page(report: Report, drawn: Mapping[str, DrawnFigure]) -> str:
    """The page. Text is escaped; the tables and figures, which are HTML already, escape theirs."""
    return render(
        "page.html",
        report=report,
        table_html={table.name: Markup(to_html(table)) for table in report.tables()},
        figure_svg={name: Markup(figure.inline_svg) for name, figure in drawn.items()},
    )


def write_parts(report: Report, drawn: Mapping[str, DrawnFigure], folder: Path) -> None:
    """tables/<name>.csv and .md, figures/<name>.svg and .png."""
    tables, figures = folder / "tables", folder / "figures"
    for place in (tables, figures):
        place.mkdir(parents=True, exist_ok=True)
    for table in report.tables():
        (tables / f"{table.name}.csv").write_text(to_csv(table), encoding="utf-8")
        (tables / f"{table.name}.md").write_text(f"## {table.title}\n\n{to_markdown(table)}", encoding="utf-8")
    for figure in drawn.values():
        save(figure, figures)
