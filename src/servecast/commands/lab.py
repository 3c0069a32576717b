"""`servecast lab`: the scheduler experiments."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from servecast.commands.files import write_whole
from servecast.commands.progress import WIDE, progress_bar
from servecast.commands.run_files import check_folder
from servecast.reports.lab_text import render_lab
from servecast.sweeps.lab.experiment import experiment_names, load_experiment
from servecast.sweeps.lab.runner import LabResult, run_experiment


def list_experiments(*, as_json: bool) -> None:
    """Print names and titles."""
    titles = {name: load_experiment(name).title for name in experiment_names()}
    if as_json:
        print(json.dumps(titles, indent=2))
        return
    table = Table.grid(padding=(0, 2))
    for name, title in titles.items():
        table.add_row(name, title)
    Console(highlight=False, width=WIDE).print(table)


def run_lab(name: str, *, out: Path | None, as_json: bool) -> None:
    """Run one experiment and print its page; with `out` also write its files. Raises ConfigError."""
    experiment = load_experiment(name)
    if out is not None:
        check_folder(out / "scenarios")
    with tempfile.TemporaryDirectory() as scratch, progress_bar(name) as report:
        result = run_experiment(experiment, (out or Path(scratch)) / "scenarios", report)
    if out is not None:
        _write(result, out)
    if as_json:
        print(json.dumps(_plain(result), indent=2))
        return
    console = Console(highlight=False, markup=False, width=WIDE)
    console.print(render_lab(result))
    if out is not None:
        console.print(f"\nWritten: {out}/table.csv, figure.svg, figure.png, scenarios/")


def _plain(result: LabResult) -> dict[str, object]:
    experiment = result.experiment
    return {
        "name": experiment.name,
        "title": experiment.title,
        "question": experiment.question,
        "finding": list(result.findings),
        "look_for": list(experiment.look_for),
        "table": [dict(row) for row in result.rows],
    }


def _write(result: LabResult, folder: Path) -> None:
    import pandas as pd

    from servecast.reports.figures.lab import draw_lab

    write_whole(folder / "table.csv", pd.DataFrame(result.rows).to_csv(index=False, float_format="%.6g"))
    scenarios = folder / "scenarios"
    for slug, scenario in result.scenarios.items():
        write_whole(scenarios / f"{slug}.yaml", scenario.to_yaml(scenarios))
    for ending in ("svg", "png"):
        draw_lab(result, folder / f"figure.{ending}")
