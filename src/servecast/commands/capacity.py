"""`servecast capacity`: the highest load that meets an SLO."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from servecast.api import provenance
from servecast.commands.progress import WIDE, counter
from servecast.commands.run import title
from servecast.configs.build import build_simulation
from servecast.configs.load import load_scenario
from servecast.hardware.errors import ConfigError
from servecast.model.caveats import caveats
from servecast.model.slo import EXAMPLE, parse_slo
from servecast.reports.capacity_text import render_capacity
from servecast.sweeps.capacity.capacity import CapacityOptions, find_capacity
from servecast.sweeps.capacity.figures import capacity_figures


def show_capacity(
    path: Path,
    overrides: Sequence[str],
    slo: str | None,
    options: CapacityOptions,
    *,
    attainment: float,
    per_cohort: bool,
    as_json: bool,
) -> bool:
    """Print the answer to stdout; whether there is a load that meets the SLO. Raises ServecastError."""
    scenario = load_scenario(path, overrides)
    limits = scenario.slo_limits if slo is None else parse_slo(slo)
    if limits is None:
        raise ConfigError("is missing, and there is no --slo", file=path, key="slo", hint=EXAMPLE)
    parameters = build_simulation(scenario)
    try:
        with counter("simulations") as report:
            capacity = find_capacity(
                parameters, limits, options, attainment=attainment, per_cohort=per_cohort, progress=report
            )
    except ConfigError as error:
        raise scenario.origin.locate(error) from None
    figures = capacity_figures(capacity)
    if as_json:
        print(json.dumps(figures | {"provenance": provenance(scenario, parameters.workload.notes)}, indent=2))
        return capacity.load is not None
    console = Console(highlight=False, width=WIDE)
    console.print(render_capacity(figures, title(scenario, parameters)))
    for note in (*parameters.workload.notes, *caveats(parameters)):
        console.print(f"Note: {note}")
    return capacity.load is not None
