"""`servecast sweep`: many scenarios, one table."""

from __future__ import annotations

import importlib.util
import io
import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from servecast.api import summary_of
from servecast.commands.files import write_whole
from servecast.commands.progress import UNCUT, progress_bar
from servecast.commands.stored import folder_store, kept_results
from servecast.hardware.errors import ConfigError
from servecast.reports.sweep_table import failures, sweep_frame, sweep_table
from servecast.reports.table_formats import to_markdown, to_rich
from servecast.sweeps.backends import Backend
from servecast.sweeps.store import FILE_NAME
from servecast.sweeps.sweep import SweepResult, run_sweep
from servecast.sweeps.sweep_file import load_sweep


def sweep_file(
    path: Path, overrides: Sequence[str], backend: Backend, *, out: Path | None, resume: bool, as_json: bool
) -> bool:
    """Run the sweep and print its table; `out`: folder for results and files. Whether any point has a result.

    Raises ServecastError.
    """
    if resume and out is None:
        raise ConfigError("needs --out DIR, the folder to go on with", key="--resume")
    sweep = load_sweep(path, overrides)
    with folder_store(out, resume=resume) as store, kept_results(store, out), progress_bar(sweep.name) as report:
        result = run_sweep(sweep, store, summary_of, backend=backend, progress=report)
    written = [] if out is None else _write(result, out)
    if as_json:
        print(json.dumps(_plain(result), indent=2))
    else:
        _print(result, out, written)
    return len(result.failed) < len(result.rows)


def _write(result: SweepResult, folder: Path) -> list[str]:
    """Table and figures in all formats; returns the names of the files."""
    # Pandas and Matplotlib take a second to import.
    from servecast.reports.figures.style import draw
    from servecast.reports.figures.sweep import sweep_figures

    frame = sweep_frame(result)
    written = [
        write_whole(folder / "table.csv", frame.to_csv(index=False)),
        write_whole(folder / "table.md", to_markdown(sweep_table(result))),
    ]
    if importlib.util.find_spec("pyarrow") is not None:
        buffer = io.BytesIO()
        frame.to_parquet(buffer, index=False)
        written.append(write_whole(folder / "table.parquet", buffer.getvalue()))
    for figure in sweep_figures(result):
        drawn = draw(figure)
        written.append(write_whole(folder / f"{figure.name}.svg", drawn.svg))
        written.append(write_whole(folder / f"{figure.name}.png", drawn.png))
    return [FILE_NAME, *written]


def _plain(result: SweepResult) -> dict[str, object]:
    return {
        "name": result.sweep.name,
        "points": len(result.rows),
        "failed": len(result.failed),
        "labels": list(result.labels),
        "figures": list(result.figures),
        "table": [dict(row) for row in result.rows],
    }


def _print(result: SweepResult, out: Path | None, written: Sequence[str]) -> None:
    console = Console(highlight=False, soft_wrap=True)
    console.print(result.sweep.name, style="bold", markup=False)
    (console if console.is_terminal else Console(highlight=False, width=UNCUT)).print(to_rich(sweep_table(result)))
    replicates = result.sweep.section.replicates
    means = f", means of {replicates} seeds with 95 % intervals" if replicates > 1 else ""
    console.print(f"{len(result.rows):,} points{means}; {len(result.failed):,} failed")
    for line in failures(result):
        console.print(f"  {line}", markup=False)
    if out is not None:
        console.print(f"Written: {out}/{', '.join(written)}", markup=False)
