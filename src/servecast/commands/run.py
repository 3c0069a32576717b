"""`servecast run`: simulate one scenario, print its result, write its files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from servecast.api import Run, simulate
from servecast.commands.progress import progress_bar
from servecast.configs.load import load_scenario
from servecast.hardware.errors import ConfigError
from servecast.model.weights import effective_quantization
from servecast.reports.run_text import render_run


def run_scenario(path: Path, overrides: Sequence[str], *, as_json: bool, out: Path | None) -> None:
    """Print the result to stdout, progress to stderr. `out`: folder for the files. Raises ServecastError."""
    scenario = load_scenario(path, overrides)
    if out is not None:
        _check_folder(out)
    with progress_bar(scenario.name) as report:
        run = simulate(scenario, report)
    if out is not None:
        write_run(run, out)
    if as_json:
        print(json.dumps(run.summary, indent=2))
        return
    console = Console(highlight=False, soft_wrap=True)
    console.print(render_run(run.summary, _title(run)))
    for note in (*run.result.workload.notes, *run.summary["accuracy"]["caveats"]):
        console.print(f"Note: {note}")
    if out is not None:
        console.print(f"Written: {out}/summary.json, requests.csv, scenario.yaml")


def write_run(run: Run, folder: Path) -> None:
    """summary.json, requests.csv and scenario.yaml (all defaults filled in). Each file appears whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / "summary.json", json.dumps(run.summary, indent=2) + "\n")
    _write(folder / "scenario.yaml", run.scenario.to_yaml())
    _write(folder / "requests.csv", run.requests.to_csv(index=False, float_format="%.9g"))


def _write(file: Path, text: str) -> None:
    unfinished = file.with_name(file.name + ".part")
    try:
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(file)
    except OSError as error:
        unfinished.unlink(missing_ok=True)
        raise ConfigError(f"cannot be written: {error.strerror}", file=file, key="--out") from None


def _check_folder(folder: Path) -> None:
    """Raise ConfigError before the work rather than after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot be made a folder: {error.strerror}", file=folder, key="--out") from None


def _title(run: Run) -> str:
    scenario, parameters = run.scenario, run.result.parameters
    layout = parameters.layout
    quantization = effective_quantization(parameters.architecture, layout.dtype)
    dtype = layout.dtype if quantization is None else quantization.dtype
    gpus = layout.tensor_parallel_size * layout.pipeline_parallel_size * parameters.replicas
    calibration = parameters.engine.kernels_for(parameters.gpu.key).calibration
    return (
        f"{scenario.name}: {parameters.architecture.key} ({dtype}) on {gpus} x {parameters.gpu.key}, "
        f"{parameters.engine.key} (calibration: {calibration})"
    )
