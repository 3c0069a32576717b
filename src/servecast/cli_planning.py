"""Commands that plan: what load a deployment carries, which GPUs carry a load; many scenarios at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from servecast.cli_options import Json, Overrides, Scenario


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(capacity)
    app.command()(compare)
    app.command()(sweep)
    app.command()(results)


def capacity(
    scenario: Scenario,
    overrides: Overrides = None,
    slo: Annotated[str | None, typer.Option(help="Limits, in place of the scenario's `slo`.")] = None,
    attainment: Annotated[
        float, typer.Option(min=0.01, max=0.9999, help="Share of requests within limits such as ttft:500.")
    ] = 0.99,
    per_cohort: Annotated[bool, typer.Option("--per-cohort", help="Every cohort must meet the limits.")] = False,
    precision: Annotated[float, typer.Option(min=0.001, max=0.5, help="As a share of the load.")] = 0.02,
    seeds: Annotated[int, typer.Option(min=1, max=10, help="Seeds behind the interval.")] = 3,
    json: Json = False,
) -> None:
    """Find the highest load that meets latency limits: requests/s, or clients of a closed loop.

    Example: servecast capacity configs/quickstart.yaml --slo "ttft:p99<=500ms tpot:p95<=30ms"

    The exit code is 1 if no load meets them.
    """
    from servecast.commands.capacity import show_capacity
    from servecast.sweeps.capacity.capacity import CapacityOptions

    options = CapacityOptions(precision=precision, seeds=seeds)
    found = show_capacity(
        scenario, overrides or [], slo, options, attainment=attainment, per_cohort=per_cohort, as_json=json
    )
    if not found:
        raise typer.Exit(1)


def compare(
    file: Annotated[Path, typer.Argument(metavar="COMPARE.yaml", help="Comparison file (YAML).")],
    out: Annotated[Path | None, typer.Option(help="Folder for comparison.json, tables and results.sqlite.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes. Default: one a core.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on in --out: run only what is missing.")] = False,
    json: Json = False,
) -> None:
    """Compare GPUs for one traffic: which carry it within the limits, how many it takes, and at what cost.

    Example: servecast compare sweeps/compare-llama-70b.yaml --out out/llama-70b

    The exit code is 1 if no candidate carries the load.
    """
    from servecast.commands.compare import compare_file
    from servecast.sweeps.backends import Backend

    if not compare_file(file, Backend("loky", jobs), out=out, resume=resume, as_json=json):
        raise typer.Exit(1)


def sweep(
    file: Annotated[Path, typer.Argument(metavar="SWEEP.yaml", help="Sweep file (YAML).")],
    overrides: Overrides = None,
    out: Annotated[Path | None, typer.Option(help="Folder for results.sqlite, tables and figures.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes. Default: one a core.")] = None,
    backend: Annotated[str, typer.Option(help="loky (this machine), dask or ray.")] = "loky",
    address: Annotated[str | None, typer.Option(help="Of a running Dask or Ray cluster.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on in --out: run only what is missing.")] = False,
    json: Json = False,
) -> None:
    """Simulate every combination of the axes in a sweep file; one table, one row a point.

    Example: servecast sweep sweeps/token-budget-x-kv-pool.yaml --out out/budget --jobs 2

    Points that do not fit or fail are rows with their message. The exit code is 1 if no point has a result.
    """
    from servecast.commands.sweep import sweep_file
    from servecast.sweeps.backends import Backend

    chosen = Backend(backend, jobs, address)
    if not sweep_file(file, overrides or [], chosen, out=out, resume=resume, as_json=json):
        raise typer.Exit(1)


def results(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Folder of a sweep.")],
    sql: Annotated[str | None, typer.Option(help="A query. Default: SELECT * FROM points.")] = None,
    json: Json = False,
) -> None:
    """Show what a sweep has stored so far, or query it; nothing is changed.

    Example: servecast results out/budget --sql "SELECT * FROM points ORDER BY p99_ttft_ms LIMIT 5"
    """
    from servecast.commands.results import show_results

    show_results(folder, sql, as_json=json)
