"""Commands about how well the model agrees with measurements."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from servecast.cli_options import Json, Overrides
from servecast.hardware.errors import ConfigError


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(measure)
    app.command()(calibrate)
    app.command()(validate)


def measure(
    out: Annotated[Path | None, typer.Option("-o", "--out", help="The table to write (CSV), or to go on with.")] = None,
    only: Annotated[
        list[str] | None, typer.Option(help="gemm, attention, copy or all-reduce; may be repeated.")
    ] = None,
    device: Annotated[int, typer.Option(help="Number of the GPU, from 0.", min=0)] = 0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be measured; needs no GPU.")] = False,
) -> None:
    """Time the kernels of your own GPU, for servecast calibrate.

    Example: servecast measure -o my-h100.csv
    """
    from servecast.commands.measure import run_measure, show_plan

    if dry_run:
        show_plan(only or [])
        return
    if out is None:
        raise ConfigError("is missing: the table to write", key="-o", hint="servecast measure -o my-gpu.csv")
    run_measure(out, only or [], device)


def calibrate(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="MEASUREMENTS...", help="Kernel tables (CSV, plain or gzip), vllm bench results (JSON)."
        ),
    ],
    gpu: Annotated[str, typer.Option(help="The GPU that was measured: catalogue key, or a YAML file.")],
    out: Annotated[Path, typer.Option("-o", "--out", help="The engine profile to write (YAML).")],
    engine: Annotated[
        str, typer.Option(help="The engine that was measured: a profile's key, or a YAML file.")
    ] = "vllm-0.19",
    model: Annotated[str | None, typer.Option(help="Model of the runs. Default: the model_id of their files.")] = None,
    overrides: Overrides = None,
    log: Annotated[Path | None, typer.Option(help="Start-up log of the engine that served the runs.")] = None,
    json: Json = False,
) -> None:
    """Fit the cost model to your own measurements and write an engine profile that runs use.

    Example: servecast calibrate my-h100.csv --gpu h100-sxm --engine vllm-0.19 -o my-h100.yaml

    Results of vllm bench serve fit the host's times; --model, --set and --log say how the runs were served.

    The exit code is 1, and nothing is written, if the measurements determine no coefficient.
    """
    from servecast.commands.calibrate import Options
    from servecast.commands.calibrate import calibrate as run_calibrate

    options = Options(gpu, engine, out, model, tuple(overrides or ()), log, json)
    if not run_calibrate(files, options):
        raise typer.Exit(1)


def validate(  # long, as typer wants a parameter for each option
    files: Annotated[list[Path], typer.Argument(metavar="MEASUREMENTS...", help="Measured runs: CSV or JSON.")],
    gpu: Annotated[str | None, typer.Option(help="GPU of runs that name none.")] = None,
    engine: Annotated[str | None, typer.Option(help="Engine profile of runs that name none.")] = None,
    model: Annotated[str | None, typer.Option(help="Model of runs that name none.")] = None,
    rules: Annotated[Path | None, typer.Option(help="YAML file with what the files do not state.")] = None,
    overrides: Overrides = None,
    threshold: Annotated[
        str | None, typer.Option(help="Limits on errors in percent, such as tpot=10,ttft:p90=25.")
    ] = None,
    jobs: Annotated[int, typer.Option(help="Processes; -1 is one a core.")] = -1,
    out: Annotated[
        Path | None, typer.Option(help="Folder for rows.csv, errors.csv, parity.svg and parity.png.")
    ] = None,
    json: Json = False,
) -> None:
    """Hold predictions against measured runs of your own: `vllm bench serve` results, or tables (docs/validate.md).

    Example: servecast validate bench-*.json --gpu h100-sxm --engine vllm-0.19 --threshold tpot=10,ttft=20

    The exit code is 1 if an error is above its threshold.
    """
    from servecast.commands.validate import validate as run_validate

    named = {"gpu": gpu, "engine": engine, "model": model}
    met = run_validate(
        files,
        defaults={key: value for key, value in named.items() if value is not None},
        rules=rules,
        overrides=overrides or [],
        threshold=threshold,
        jobs=jobs,
        out=out,
        as_json=json,
    )
    if not met:
        raise typer.Exit(1)
