"""Commands that plan: what load a deployment carries."""

from __future__ import annotations

from typing import Annotated

import typer

from servecast.cli_options import Json, Overrides, Scenario


def register(app: typer.Typer) -> None:
    """Add the commands to `app`."""
    app.command()(capacity)


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
