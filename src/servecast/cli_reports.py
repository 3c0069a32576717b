"""Commands that show stored results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def register(app: typer.Typer) -> None:
    """Add the commands of this file to `app`."""
    app.command()(report)
    app.command()(diff)


def report(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a run, a sweep or a comparison.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="HTML file. Default: DIR/report/report.html.")
    ] = None,
) -> None:
    """Make a page, tables and figures of stored results.

    Example: servecast report out/quickstart -o quickstart.html
    """
    from servecast.commands.report import write_report

    write_report(folder, output)


def diff(
    first: Annotated[Path, typer.Argument(metavar="A", help="Folder of a run, a sweep or a comparison.")],
    second: Annotated[Path, typer.Argument(metavar="B", help="Another of the same kind.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Hold stored results against each other: settings that differ, figures that moved, with intervals.

    Example: servecast diff out/h100 out/a100
    """
    from servecast.commands.diff import show_diff

    show_diff(first, second, as_json=json)
