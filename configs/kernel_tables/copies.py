"""What measured copies say of memory and host link. It enters no engine profile, as it belongs to the machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from servecast.configs.kernel_tables.choice import Choice
from servecast.configs.kernel_tables.read import KernelTable
from servecast.hardware.gpus import Gpu

if TYPE_CHECKING:
    import pandas as pd

_HOST = ("host_to_device", "device_to_host")


def copy_notes(tables: Sequence[KernelTable], gpu: Gpu) -> Iterator[str]:
    """A line for each direction that was measured: seconds of a copy besides its bytes, and bytes a second."""
    choice = Choice(tables, "copy")
    if not len(choice):
        return
    rows = choice.of_gpu(gpu.key).rows
    for direction in rows["copy"].unique():
        mine = rows[rows["copy"] == direction]
        if mine["bytes"].nunique() < 2:
            yield f"{direction}: one size does not tell time a copy and bandwidth apart"
            continue
        copy_us, gb_per_s = _affine(mine)
        if direction in _HOST:
            datasheet = gpu.pcie_bytes_per_s / 1e9
            yield (
                f"{direction}: {copy_us:.1f} us a copy and {gb_per_s:.3g} GB/s (datasheet {datasheet:.3g}); in a "
                f"scenario scheduler.swap_copy_us: {copy_us:.1f}, in a GPU file of your own "
                f"pcie_gb_per_s: {gb_per_s:.3g}"
            )
        else:
            # each byte is read and written
            share = 2 * gb_per_s * 1e9 / gpu.memory_bytes_per_s
            yield f"{direction}: {gb_per_s:.3g} GB/s copied, which is {share:.0%} of the datasheet's bandwidth"


def _affine(rows: pd.DataFrame) -> tuple[float, float]:
    """(us a copy, GB/s) by least squares on relative errors; no copy takes less than no time."""
    time_us, size = rows["latency_us"].to_numpy(float), rows["bytes"].to_numpy(float)
    (fixed, slope), *_ = np.linalg.lstsq(np.stack([1 / time_us, size / time_us], axis=1), np.ones(len(rows)))
    if fixed < 0:
        fixed, slope = 0.0, float(np.median(time_us / size))
    return float(fixed), 1e-3 / float(slope)
