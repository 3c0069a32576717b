"""`servecast report`: one HTML page, tables and figures from the folder of a run, a sweep or a comparison."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from servecast.commands.results_folder import COMPARISON, SWEEP, kind_of_results
from servecast.hardware.errors import ConfigError
from servecast.reports.comparison_report import comparison_report
from servecast.reports.html_page import draw_figures, html_page, write_parts
from servecast.reports.report import Report
from servecast.reports.run_report import run_report
from servecast.reports.stored_comparison import read_comparison
from servecast.reports.stored_run import of_this_version, read_run
from servecast.reports.stored_sweep import read_sweep
from servecast.reports.sweep_report import sweep_report


def write_report(folder: Path, page: Path | None) -> None:
    """Write DIR/report/ (page, tables, figures); `page`: another place for the page. Raises ConfigError."""
    with of_this_version(folder):
        report = read_report(folder)
    place = folder / "report"
    if page is not None and not page.parent.is_dir():
        raise ConfigError("no such folder", file=page.parent, key="--output")
    page = place / "report.html" if page is None else page
    try:
        place.mkdir(exist_ok=True)
        drawn = draw_figures(report)
        write_parts(report, drawn, place)
        page.write_text(html_page(report, drawn), encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"cannot be written: {error.strerror}", file=error.filename) from None
    console = Console(highlight=False, soft_wrap=True)
    console.print(report.answer.sentence, markup=False)
    console.print(f"Written: {page}, {place}/tables/, {place}/figures/", markup=False)


def read_report(folder: Path) -> Report:
    """The report of whatever `folder` holds."""
    kind = kind_of_results(folder)
    if kind == COMPARISON:
        return comparison_report(read_comparison(folder))
    return sweep_report(read_sweep(folder)) if kind == SWEEP else run_report(read_run(folder))
