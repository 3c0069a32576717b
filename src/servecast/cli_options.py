"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Scenario = Annotated[Path, typer.Argument(help="Scenario file (YAML).")]
Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set a dotted key, e.g. scheduler.max_num_seqs=64."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
