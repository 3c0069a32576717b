"""All-reduce forms to fit: the small-message kernel of an engine over NVLink, and a ring for one number of GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from servecast.hardware.engines import KernelCoefficients, NvlinkAllReduce, RingAllReduce
from servecast.hardware.gpus import Gpu
from servecast.model.calibration.fitting import Coefficient, Evidence, Floats, Mask, Rows, Values
from servecast.model.collectives import all_reduce_seconds, collective_seconds

# Up to here vLLM's own kernel reduces; above, it hands over to NCCL.
SMALL_BYTES = 8 * 2**20
# Message from which the bandwidth is seen, and up to which the latency is.
_LARGE_BYTES, _TINY_BYTES = 2**20, 2**17

_SMALL = (
    Coefficient("a_us", 0.5, 100.0),
    Coefficient("b_us_per_peer", 0.0, 20.0, scale=1.0),
    Coefficient("bw_twoshot_gbs", 1.0, 2000.0, open_end=True),
    Coefficient("bw_oneshot_gbs", 1.0, 2000.0, open_end=True),
    Coefficient("x_twoshot_us", 0.0, 100.0, scale=2.0),
)
_RING = (
    Coefficient("a_us", 0.1, 500.0, scale=10.0),
    Coefficient("busbw_gbs", 0.5, 3000.0, open_end=True),
)


@dataclass(frozen=True)
class AllReduceRows(Rows):
    """bytes_: of the message on each GPU."""

    bytes_: Floats
    gpus: NDArray[np.int64]


@dataclass(frozen=True)
class SmallAllReduceFit:
    """Messages up to SMALL_BYTES, for all numbers of GPUs."""

    coefficients = _SMALL

    def seconds(self, rows: AllReduceRows, values: Values) -> Floats:
        form = NvlinkAllReduce(
            small_max_bytes=SMALL_BYTES,
            small_a_s=values["a_us"] * 1e-6,
            small_b_s_per_peer=values["b_us_per_peer"] * 1e-6,
            small_oneshot_bytes_per_s=values["bw_oneshot_gbs"] * 1e9,
            small_twoshot_bytes_per_s=values["bw_twoshot_gbs"] * 1e9,
            small_twoshot_extra_s=values["x_twoshot_us"] * 1e-6,
            large=RingAllReduce({2: (0.0, 1.0)}),
        )
        return _by_gpus(rows, form)

    def weights(self, rows: AllReduceRows) -> Floats:
        return np.ones(len(rows))

    def shapes(self, rows: AllReduceRows) -> NDArray[np.int64]:
        return np.unique(rows.bytes_, return_inverse=True)[1].astype(np.int64)

    def evidence(self, rows: AllReduceRows, _values: Values) -> Mapping[str, Evidence]:
        several = np.full(len(rows), len(np.unique(rows.gpus)) > 1)
        large = rows.bytes_ >= _LARGE_BYTES
        return {
            "a_us": Evidence(rows.bytes_ <= _TINY_BYTES, "messages of 128 KiB or less"),
            "b_us_per_peer": Evidence(several, "measurements with a second number of GPUs"),
            "bw_twoshot_gbs": Evidence(large, "messages of 1 MiB or more"),
            "bw_oneshot_gbs": Evidence(~large, "messages below 1 MiB"),
            "x_twoshot_us": Evidence(large, "messages of 1 MiB or more"),
        }

    def regimes(self, rows: AllReduceRows, _values: Values) -> Mapping[str, Mask]:
        return _by_size(rows)


@dataclass(frozen=True)
class RingFit:
    """One number of GPUs."""

    gpus: int

    coefficients = _RING

    def seconds(self, rows: AllReduceRows, values: Values) -> Floats:
        ring = RingAllReduce({self.gpus: (values["a_us"] * 1e-6, values["busbw_gbs"] * 1e9)})
        return np.asarray(all_reduce_seconds(rows.bytes_, self.gpus, ring))

    def weights(self, rows: AllReduceRows) -> Floats:
        return np.ones(len(rows))

    def shapes(self, rows: AllReduceRows) -> NDArray[np.int64]:
        return np.unique(rows.bytes_, return_inverse=True)[1].astype(np.int64)

    def evidence(self, rows: AllReduceRows, _values: Values) -> Mapping[str, Evidence]:
        return {"busbw_gbs": Evidence(rows.bytes_ >= _LARGE_BYTES, "messages of 1 MiB or more")}

    def regimes(self, rows: AllReduceRows, _values: Values) -> Mapping[str, Mask]:
        return _by_size(rows)


def _by_size(rows: AllReduceRows) -> Mapping[str, Mask]:
    large = rows.bytes_ >= _LARGE_BYTES
    return {"messages below 1 MiB": ~large, "messages from 1 MiB": large}


def _by_gpus(rows: AllReduceRows, form: NvlinkAllReduce) -> Floats:
    result = np.empty(len(rows))
    for gpus in np.unique(rows.gpus):
        mask = rows.gpus == gpus
        result[mask] = all_reduce_seconds(rows.bytes_[mask], int(gpus), form)
    return result


def small_values(form: NvlinkAllReduce) -> dict[str, float]:
    """By the names of the files."""
    return {
        "a_us": form.small_a_s * 1e6,
        "b_us_per_peer": form.small_b_s_per_peer * 1e6,
        "bw_twoshot_gbs": form.small_twoshot_bytes_per_s / 1e9,
        "bw_oneshot_gbs": form.small_oneshot_bytes_per_s / 1e9,
        "x_twoshot_us": form.small_twoshot_extra_s * 1e6,
    }


def ring_values(kernels: KernelCoefficients, gpus: int, gpu: Gpu) -> dict[str, float]:
    """By the names of the files: the measured ones for this number of GPUs, else those of the datasheet's link."""
    known = kernels.all_reduce.large if isinstance(kernels.all_reduce, NvlinkAllReduce) else kernels.all_reduce
    if isinstance(known, RingAllReduce) and gpus in known.per_gpus:
        fixed_s, bytes_per_s = known.per_gpus[gpus]
        return {"a_us": fixed_s * 1e6, "busbw_gbs": bytes_per_s / 1e9}
    sizes = np.array([0.0, 1e9])
    fixed, with_message = collective_seconds(sizes, gpus, gpu, replace(kernels, all_reduce=None))
    ring_bytes = 2.0 * (gpus - 1) / gpus * 1e9
    return {"a_us": float(fixed) * 1e6, "busbw_gbs": float(ring_bytes / (with_message - fixed)) / 1e9}
