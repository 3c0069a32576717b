"""`servecast run`: simulate one scenario, print its result, write its files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from servecast.api import simulate
from servecast.commands.progress import progress_bar
from servecast.commands.run_files import check_folder, write_run, write_timeline
from servecast.configs.load import load_scenario
from servecast.configs.scenario import Scenario
from servecast.hardware.errors import ConfigError
from servecast.model.cost import gpu_count
from servecast.model.simulation import SimulationParameters
from servecast.model.weights import effective_quantization
from servecast.reports.accuracy_text import accuracy_line
from servecast.reports.run_text import render_run


def run_scenario(path: Path, overrides: Sequence[str], *, as_json: bool, out: Path | None, with_timeline: bool) -> None:
    """Print the result to stdout, progress to stderr. `out`: folder for the files. Raises ServecastError."""
    if with_timeline and out is None:
        raise ConfigError("needs --out DIR, the folder for timeline.json", key="--timeline")
    scenario = load_scenario(path, overrides)
    if out is not None:
        check_folder(out)
    with progress_bar(scenario.name) as report:
        run = simulate(scenario, report)
    written = [] if out is None else write_run(run, title(scenario, run.result.parameters), out)
    if out is not None and with_timeline:
        written += write_timeline(run, out)
    if as_json:
        print(json.dumps(run.summary, indent=2))
        return
    console = Console(highlight=False, markup=False, soft_wrap=True)
    console.print(render_run(run.summary, title(run.scenario, run.result.parameters)))
    console.print(accuracy_line(run.summary["accuracy"]))
    for note in (*run.result.workload.notes, *run.summary["accuracy"]["caveats"]):
        console.print(f"Note: {note}")
    if out is not None:
        console.print(f"Written: {out}/{', '.join(written)}")


def title(scenario: Scenario, parameters: SimulationParameters) -> str:
    """What is simulated, in a line."""
    layout = parameters.layout
    quantization = effective_quantization(parameters.architecture, layout.dtype)
    dtype = layout.dtype if quantization is None else quantization.dtype
    calibration = parameters.engine.kernels_for(parameters.gpu.key).calibration
    return (
        f"{scenario.name}: {parameters.architecture.key} ({dtype}) on {gpu_count(parameters)} x {parameters.gpu.key}, "
        f"{parameters.engine.key} (calibration: {calibration})"
    )
