"""`servecast compare`: which GPUs, how many and at what cost."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any

from rich.console import Console

from servecast.commands.files import write_whole
from servecast.commands.progress import UNCUT, progress_bar
from servecast.commands.stored import folder_store, kept_results
from servecast.configs.comparison import candidates, load_comparison
from servecast.hardware.errors import ConfigError
from servecast.reports.comparison_tables import all_tables
from servecast.reports.comparison_text import comparison_markdown, render_comparison
from servecast.reports.table_formats import to_csv
from servecast.sweeps.backends import Backend
from servecast.sweeps.compare.compare import figures_of, task_content
from servecast.sweeps.compare.evaluate import evaluate
from servecast.sweeps.fingerprint import content_key, scenario_files
from servecast.sweeps.runner import Task
from servecast.sweeps.store import FILE_NAME, Planned, run_stored
from servecast.version import version

# Columns of the view `points` in the store -> where they are in a result.
_STORED = {
    "result": "status",
    "capacity": "capacity/capacity",
    "replicas": "fleet/replicas",
    "gpus_per_replica": "gpus_per_replica",
    "p99_ttft_ms": "fleet/run/p99_ttft_ms",
    "p95_tpot_ms": "fleet/run/p95_tpot_ms",
}


def compare_file(path: Path, backend: Backend, *, out: Path | None, resume: bool, as_json: bool) -> bool:
    """Run the comparison and print it; `out`: folder for its files. Whether any candidate carries the load.

    Raises ServecastError.
    """
    if resume and out is None:
        raise ConfigError("needs --out DIR, the folder to go on with", key="--resume")
    comparison = load_comparison(path)
    chosen = candidates(comparison)
    points = []
    for candidate in chosen:
        content = task_content(comparison, candidate)
        key = content_key(content, scenario_files(candidate.scenario))
        points.append(Planned(Task(key, content), {"candidate": candidate.label}))
    with folder_store(out, resume=resume) as store, kept_results(store, out), progress_bar(comparison.name) as report:
        outcomes = run_stored(store, points, evaluate, backend=backend, figures=_STORED, progress=report)
    found = [(outcome.value, outcome.message) for outcome in outcomes]
    figures = figures_of(comparison, chosen, found, datetime.date.today())
    figures["provenance"] = {"version": version(), "file": str(path), "seed": comparison.seed}
    written = [] if out is None else _write(figures, out)
    if as_json:
        print(json.dumps(figures, indent=2))
    else:
        console = Console(highlight=False, width=UNCUT)
        console.print(render_comparison(figures))
        if out is not None:
            console.print(f"Written: {out}/{', '.join(written)}", markup=False)
    return any(row["rank"] is not None for row in figures["candidates"])


def _write(figures: dict[str, Any], folder: Path) -> list[str]:
    """All files of the comparison; returns their names."""
    written = [
        write_whole(folder / "comparison.json", json.dumps(figures, indent=2) + "\n"),
        write_whole(folder / "comparison.md", comparison_markdown(figures)),
    ]
    for table in all_tables(figures):
        name = "comparison" if table.name == "ranking" else table.name
        written.append(write_whole(folder / f"{name}.csv", to_csv(table)))
    return [*written, FILE_NAME]
