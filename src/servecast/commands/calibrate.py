"""`servecast calibrate`: fit coefficients to a user's own measurements and write them as an engine profile."""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from servecast.commands.files import check_writable, write_whole
from servecast.commands.progress import progress_bar
from servecast.hardware.engines import load_engine
from servecast.hardware.errors import ConfigError
from servecast.hardware.gpus import Gpu, gpu_key, load_gpu
from servecast.version import version

_WIDE = 160


def calibrate(files: Sequence[Path], gpu: str, engine: str, out: Path, *, as_json: bool) -> bool:
    """Fit, print what was found, write `out`; whether anything could be fitted (else nothing is written).

    Raises ConfigError.
    """
    _check_scipy()
    from servecast.configs.kernel_tables.copies import copy_notes
    from servecast.configs.kernel_tables.groups import kernel_groups
    from servecast.configs.kernel_tables.profile import (
        FittedGroup,
        check_readable,
        kernel_entries,
        profile_yaml,
    )
    from servecast.configs.kernel_tables.read import read_kernel_table
    from servecast.model.calibration.fitting import fit
    from servecast.reports.calibration_text import calibration_figures, render_calibration

    check_writable(out, "-o")
    device, profile = load_gpu(gpu), load_engine(engine)
    tables = [read_kernel_table(file) for file in files]
    notes = [note for table in tables for note in (*table.notes, *_other_machine(table.remarks, device))]
    groups, unused = kernel_groups(tables, device, profile)
    fitted = []
    with progress_bar("calibrate") as report:
        for done, group in enumerate(groups):
            report(done, len(groups))
            fitted.append(FittedGroup(group, fit(group.form, group.rows, group.defaults)))
    notes += [*unused, *copy_notes(tables, device)]
    found = any(one.fit.free for one in fitted)
    if found:
        made_by = f"servecast calibrate {version()}, {datetime.date.today()}"
        changes = {"kernels": {device.key: kernel_entries(fitted, device, made_by)}}
        write_whole(out, profile_yaml(engine, changes, f"{made_by}: {device.key}, {profile.key}"), "-o")
        check_readable(out, device)
    if as_json:
        print(json.dumps(calibration_figures(fitted, notes) | {"written": str(out) if found else None}, indent=2))
        return found
    console = Console(highlight=False, width=_WIDE, soft_wrap=True)
    console.print(render_calibration(fitted, notes))
    console.print(_ending(found, out, gpu))
    return found


def _ending(found: bool, out: Path, gpu: str) -> str:
    if not found:
        return "Nothing was written: the measurements determine no coefficient"
    return f"Written: {out}. To use it: servecast run SCENARIO.yaml --set gpu={gpu} --set engine={out}"


def _check_scipy() -> None:
    try:
        import scipy.optimize  # noqa: F401  (whether it is there)
    except ImportError:
        raise ConfigError("needs SciPy", key="calibrate", hint="pip install 'servecast[calibrate]'") from None


def _other_machine(remarks: Mapping[str, Any], gpu: Gpu) -> list[str]:
    """A note if the table says that it is from another GPU."""
    name = remarks.get("gpu")
    if name is None or gpu_key(name) in (gpu.key, name):
        return []
    return [f"the table was measured on {name}, not on {gpu.key}"]
