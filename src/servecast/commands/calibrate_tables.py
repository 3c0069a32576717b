"""The part of `servecast calibrate` that looks at kernel tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from servecast.commands.progress import progress_bar
from servecast.configs.kernel_tables.copies import copy_notes
from servecast.configs.kernel_tables.groups import kernel_groups
from servecast.configs.kernel_tables.profile import FittedGroup, kernel_entries, with_whole_all_reduce
from servecast.configs.kernel_tables.read import read_kernel_table
from servecast.hardware.engines import EngineProfile
from servecast.hardware.gpus import Gpu, gpu_key
from servecast.model.calibration.fitting import fit


def fits_of_tables(
    files: Sequence[Path], gpu: Gpu, engine: EngineProfile, made_by: str
) -> tuple[list[FittedGroup], dict[str, Any], list[str]]:
    """The fits, what they change in the profile, and notes. Raises ConfigError."""
    tables = [read_kernel_table(file) for file in files]
    notes = [note for table in tables for note in (*table.notes, *_other_machine(table.remarks, gpu))]
    groups, unused = kernel_groups(tables, gpu, engine)
    fitted = []
    with progress_bar("fitting") as report:
        for done, group in enumerate(groups):
            report(done, len(groups))
            fitted.append(FittedGroup(group, fit(group.form, group.rows, group.defaults)))
    fitted = with_whole_all_reduce(fitted, engine.kernels_for(gpu.key))
    found = any(one.written for one in fitted)
    changes = {"kernels": {gpu.key: kernel_entries(fitted, gpu, made_by)}} if found else {}
    return fitted, changes, [*notes, *unused, *copy_notes(tables, gpu)]


def _other_machine(remarks: Mapping[str, str], gpu: Gpu) -> list[str]:
    """A note if the table says that it is from another GPU."""
    name = remarks.get("gpu")
    if name is None or gpu_key(name) in (gpu.key, name):
        return []
    return [f"the table was measured on {name}, not on {gpu.key}"]
