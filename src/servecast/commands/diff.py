"""`servecast diff`: two stored results side by side."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from servecast.reports.run_diff import Diff, diff_runs
from servecast.reports.stored_run import read_run
from servecast.reports.table_formats import to_rich


def show_diff(first: Path, second: Path, *, as_json: bool) -> None:
    """Print what differs between two folders. Raises ConfigError."""
    diff = read_diff(first, second)
    if as_json:
        print(json.dumps(diff.plain(), indent=2))
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(f"A: {first}\nB: {second}\n", markup=False)
    if not diff.settings.rows:
        console.print("All settings are alike.\n")
    for table in (diff.settings, diff.figures):
        if table.rows:
            console.print(to_rich(table))
            console.print()
    for note in diff.notes:
        console.print(note, markup=False)


def read_diff(first: Path, second: Path) -> Diff:
    """What differs between two folders of one kind."""
    return diff_runs(read_run(first), read_run(second))
