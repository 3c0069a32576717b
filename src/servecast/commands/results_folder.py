"""What the folder of `--out` holds, for commands that read it again."""

from __future__ import annotations

from pathlib import Path

from servecast.hardware.errors import ConfigError
from servecast.reports.stored_comparison import COMPARISON_FILE, is_comparison
from servecast.reports.stored_run import SUMMARY_FILE
from servecast.reports.stored_sweep import is_sweep
from servecast.sweeps.store import FILE_NAME

RUN, SWEEP, COMPARISON = "run", "sweep", "comparison"


def kind_of_results(folder: Path) -> str:
    """RUN, SWEEP or COMPARISON. Raises ConfigError where there is no such folder or it holds none of them."""
    if not folder.is_dir():
        raise ConfigError("no such folder", file=folder)
    if (folder / SUMMARY_FILE).exists():
        return RUN
    if is_comparison(folder):
        return COMPARISON
    if is_sweep(folder):
        return SWEEP
    hint = "servecast run, sweep and compare fill such a folder with --out DIR"
    raise ConfigError(f"holds no results: no {SUMMARY_FILE}, {COMPARISON_FILE} or {FILE_NAME}", file=folder, hint=hint)
