"""The part of `servecast calibrate` that looks at whole runs: host times, and the KV pool that the engine printed."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from servecast.commands.calibrate import Options
from servecast.commands.progress import progress_bar
from servecast.configs.build import build_simulation
from servecast.configs.kernel_tables.profile import profile_yaml
from servecast.configs.load import scenario_from
from servecast.configs.measured import MeasuredRun, read_runs
from servecast.configs.startup_log import StartupLog, read_startup_log
from servecast.hardware.engines import load_engine
from servecast.hardware.errors import ConfigError
from servecast.model.fit_advice import FitQuestion
from servecast.sweeps.calibration.host import HostFit, fit_host


def host_of_runs(
    files: Sequence[Path], options: Options, changes: Mapping[str, Any], made_by: str
) -> tuple[HostFit, dict[str, Any], list[str]]:
    """The fit, what it changes in the profile, and notes. changes: those that kernel tables made, which the runs are
    simulated with. Raises ConfigError.
    """
    with tempfile.TemporaryDirectory() as folder:
        engine = options.engine
        if changes:
            file = Path(folder) / f"{Path(engine).stem}.yaml"
            file.write_text(profile_yaml(options.engine, changes, "for this calibration"), encoding="utf-8")
            engine = str(file)
        runs, notes = _runs(files, options, engine)
        with progress_bar("simulating the runs") as report:
            found = fit_host(runs, load_engine(engine).host, report)
    notes += [f"{run.place}: {run.note}" for run in runs if run.note]
    return found, _changes(found, files, made_by), notes


def _runs(files: Sequence[Path], options: Options, engine: str) -> tuple[list[MeasuredRun], list[str]]:
    defaults, notes = {"gpu": options.gpu, "engine": engine}, []
    overrides = [*([] if options.model is None else [f"model={options.model}"]), *options.overrides]
    if options.log is not None:
        log = read_startup_log(options.log)
        first = _read(files[:1], defaults, overrides)[0]
        blocks, line = _checked_pool(log, first)
        overrides.append(f"replica.kv_pool_blocks={blocks}")
        notes.append(line)
    return _read(files, defaults, overrides), notes


def _read(files: Sequence[Path], defaults: Mapping[str, str], overrides: Sequence[str]) -> list[MeasuredRun]:
    runs = [run for file in files for run in read_runs(file, None, defaults, overrides)]
    for run in runs:
        if run.problem is not None:
            raise ConfigError(run.problem, file=run.place)
    return runs


def _checked_pool(log: StartupLog, run: MeasuredRun) -> tuple[int, str]:
    """The pool that the engine printed, and a line that holds the predicted one against it."""
    parameters = build_simulation(scenario_from(run.settings))
    scheduler = parameters.scheduler
    plan = FitQuestion(
        parameters.architecture,
        parameters.gpu,
        parameters.engine.memory,
        parameters.layout,
        scheduler.max_num_batched_tokens,
        scheduler.max_num_seqs,
    ).plan(parameters.layout)
    blocks = log.pool_blocks(plan.block_size)
    parts = [f"{blocks:,} blocks, predicted {plan.kv_pool_blocks:,} ({plan.kv_pool_blocks / blocks - 1:+.1%})"]
    for words, printed, predicted in (
        ("KV cache", log.kv_gib, plan.kv_gib),
        ("weights", log.weights_gib, plan.weights_gib),
    ):
        if printed is not None:
            parts.append(f"{words} {printed:.2f} GiB, predicted {predicted:.2f}")
    return blocks, f"KV pool by {log.file.name}: " + "; ".join(parts) + ". The runs are simulated with the printed pool"


def _changes(found: HostFit, files: Sequence[Path], made_by: str) -> dict[str, Any]:
    if not found.fitted:
        return {}
    kind = "leaving each run out in turn" if found.held_out else "in-sample"
    errors = ", ".join(f"mean {name.upper()} {error}" for name, error in found.after.items())
    names = ", ".join(file.name for file in files)
    kept = "".join(f"; {name} kept: {why}" for name, why in found.kept.items())
    return {
        "host": {name: float(f"{value:.4g}") for name, value in found.values.items()},
        "sources": {"host": f"{names}: {errors} ({kind}){kept}; {made_by}"},
    }
