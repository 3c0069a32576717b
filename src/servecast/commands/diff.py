"""`servecast diff`: two stored results side by side."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console

from servecast.commands.results_folder import COMPARISON, SWEEP, kind_of_results
from servecast.hardware.errors import ConfigError
from servecast.reports.comparison_diff import diff_comparisons
from servecast.reports.diff import Diff
from servecast.reports.run_diff import diff_runs
from servecast.reports.stored_comparison import read_comparison
from servecast.reports.stored_run import of_this_version, read_run
from servecast.reports.stored_sweep import read_sweep
from servecast.reports.sweep_diff import diff_sweeps
from servecast.reports.table_formats import to_rich

# Of output that no terminal limits.
_WIDE = 160


def show_diff(first: Path, second: Path, *, as_json: bool) -> None:
    """Print what differs between two folders. Raises ConfigError."""
    with of_this_version(second):
        diff = read_diff(first, second)
    if as_json:
        print(json.dumps(diff.plain(), indent=2))
        return
    console = Console(highlight=False, soft_wrap=True)
    if not console.is_terminal:
        console.width = _WIDE
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
    kinds = [kind_of_results(folder) for folder in (first, second)]
    if kinds[0] != kinds[1]:
        problem = f"is the folder of a {kinds[1]}, but {first} that of a {kinds[0]}"
        raise ConfigError(problem, file=second, hint="Give two folders of one kind")
    if kinds[0] == COMPARISON:
        return diff_comparisons(read_comparison(first), read_comparison(second))
    if kinds[0] == SWEEP:
        return diff_sweeps(read_sweep(first), read_sweep(second))
    return diff_runs(read_run(first), read_run(second))
