"""The files of an `--out` folder. Each appears whole or not at all."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from rich.console import Console

from servecast.api import Run
from servecast.commands.files import write_whole
from servecast.hardware.errors import ConfigError


def write_run(run: Run, title: str, folder: Path) -> list[str]:
    """All files but the timeline; returns their names. title: the run in a line."""
    folder.mkdir(parents=True, exist_ok=True)
    details = {
        "title": title,
        "defaulted_keys": run.scenario.defaulted_keys(),
        "memory": asdict(run.result.memory),
    }
    return [
        write_whole(folder / "summary.json", json.dumps(run.summary, indent=2) + "\n"),
        write_whole(folder / "requests.csv", run.requests.to_csv(index=False, float_format="%.9g")),
        write_whole(folder / "scenario.yaml", run.scenario.to_yaml()),
        write_whole(folder / "series.csv", run.series.to_csv(index=False, float_format="%.6g")),
        write_whole(folder / "distributions.csv", run.distributions.to_csv(index=False, float_format="%.6g")),
        write_whole(folder / "details.json", json.dumps(details, indent=2) + "\n"),
    ]


def write_timeline(run: Run, folder: Path) -> list[str]:
    """timeline.json; says on stderr what it leaves out. Returns its name."""
    from servecast.reports.timeline import timeline

    trace = timeline(run.result)
    if trace.until_s is not None:
        Console(stderr=True, highlight=False, soft_wrap=True).print(
            f"timeline.json ends at {trace.until_s:,.1f} s of the run, as viewers hold no more: "
            f"{trace.left_out_requests:,} requests and {trace.left_out_steps:,} rows of steps are left out."
        )
    return [write_whole(folder / "timeline.json", trace.to_json())]


def check_folder(folder: Path) -> None:
    """Make `folder`, so that ConfigError comes before the work rather than after it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"cannot be made a folder: {error.strerror}", file=folder, key="--out") from None
