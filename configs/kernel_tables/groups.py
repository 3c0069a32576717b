"""From kernel tables to what is fitted: for each group of coefficients its form, its rows and its defaults."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from servecast.configs.kernel_tables.attention_groups import attention_groups
from servecast.configs.kernel_tables.choice import Choice
from servecast.configs.kernel_tables.group import (
    FLUSHED,
    L2_MARGIN,
    SIXTEEN_BIT,
    Chosen,
    Group,
    nothing,
    rows_of_kind,
)
from servecast.configs.kernel_tables.read import KernelTable
from servecast.hardware.engines import (
    AllReduceTable,
    EngineProfile,
    GemmCoefficients,
    KernelCoefficients,
    NvlinkAllReduce,
    RingAllReduce,
)
from servecast.hardware.gpus import Gpu
from servecast.model.calibration.all_reduce import (
    SMALL_BYTES,
    AllReduceRows,
    RingFit,
    SmallAllReduceFit,
    ring_values,
    small_values,
)
from servecast.model.calibration.fitting import Values
from servecast.model.calibration.gemm import GemmFit, GemmRows, gemm_values
from servecast.model.precision import gemm_form

# Group -> its names in a table, the weight dtype that stands for it, the arithmetic that the GPU must have.
_GEMMS = {
    "gemm_16bit": ("16bit", SIXTEEN_BIT, "bfloat16", "16bit"),
    "gemm_fp8": ("fp8", ("fp8", "float8_e4m3fn"), "fp8", "fp8"),
    "gemm_nvfp4": ("nvfp4", ("nvfp4",), "nvfp4", "fp4"),
}
_NARROWEST = 512
# Tables time several copies of the weights one after the other; what of these stays in the L2 cache was not read from
# memory.
_COPIES = 6
_GPU_COUNTS = (2, 4, 8)


def kernel_groups(tables: Sequence[KernelTable], gpu: Gpu, engine: EngineProfile) -> tuple[list[Group], list[str]]:
    """The groups that `tables` have rows of, and notes on those that came to nothing."""
    chosen = [*_gemms(tables, gpu, engine), *attention_groups(tables, gpu, engine), *_all_reduces(tables, gpu, engine)]
    notes = [f"{name}: no rows left: " + "; ".join(c.notes) for name, c, _ in chosen if not len(c) and c.notes]
    return [make(choice) for _, choice, make in chosen if len(choice)], notes


def _gemms(tables: Sequence[KernelTable], gpu: Gpu, engine: EngineProfile) -> list[Chosen]:
    start = rows_of_kind(tables, "gemm", gpu)
    if start is None:
        return []
    start.of_engine(engine.engine).newest()
    if not len(start):
        return [("gemm", start, nothing)]
    known = [name for _, names, _, _ in _GEMMS.values() for name in names]
    start.keep(start.rows["gemm_dtype"].isin(known), "of number types without a form (fp8_block ...)")
    chosen: list[Chosen] = []
    for group, (kind, names, dtype, peak) in _GEMMS.items():
        choice = start.copy().only(start.rows["gemm_dtype"].isin(names))
        if not len(choice):
            continue
        choice.keep(np.full(len(choice), peak in gpu.peak_flops), f"for which {gpu.key} has no arithmetic")
        kernels = engine.kernels_for(gpu.key)
        coefficients = kernels.gemm.get(kind) or engine.default_kernels.gemm[kind]
        form = gemm_form(dtype, gpu, replace(kernels, gemm={**kernels.gemm, kind: coefficients}))
        _cold_gemms(choice, form.weight_bytes, gpu)
        chosen.append((group, choice, _gemm_maker(group, GemmFit(form), coefficients)))
    return chosen


def _gemm_maker(name: str, form: GemmFit, coefficients: GemmCoefficients) -> Callable[[Choice], Group]:
    def make(choice: Choice) -> Group:
        rows = GemmRows(choice.column("latency_us") * 1e-6, *(choice.column(c) for c in "mnk"))
        group = Group.of(name, form, rows, gemm_values(coefficients, form.form), choice)
        # the form multiplies arrays as it does numbers
        before = form.form.seconds(rows.m, rows.n, rows.k).total_s  # type: ignore[arg-type]
        return replace(group, before_s=np.asarray(before))

    return make


def _cold_gemms(choice: Choice, weight_bytes: float, gpu: Gpu) -> None:
    narrow = choice.rows[["n", "k"]].min(axis=1) < _NARROWEST
    choice.keep(~narrow, f"narrower than {_NARROWEST}")
    copies = choice.rows["n"] * choice.rows["k"] * weight_bytes * _COPIES
    cold = (copies > L2_MARGIN * gpu.l2_mb * 1e6) | (choice.rows["cache"] == FLUSHED)
    choice.keep(cold, f"whose weights stay in the L2 cache ({_COPIES} copies)")


def _all_reduces(tables: Sequence[KernelTable], gpu: Gpu, engine: EngineProfile) -> list[Chosen]:
    start = rows_of_kind(tables, "collective", gpu)
    if start is None:
        return []
    start.keep(start.rows["op_name"] == "all_reduce", "of other collectives")
    start.keep(start.rows["dtype"].isin(SIXTEEN_BIT), "of 8-bit messages")
    start.keep(start.rows["num_gpus"].isin(_GPU_COUNTS), "of other than 2, 4 or 8 GPUs")
    kernels = engine.kernels_for(gpu.key)
    nccl = start.copy().only(start.rows["kernel_source"].str.startswith("NCCL")).newest()
    own = start.copy().only(start.rows["backend"] == engine.engine).newest()
    own.keep(~own.rows["kernel_source"].str.endswith("eager"), "launched one by one, not in a CUDA graph")
    own.keep(own.rows["bytes"] <= SMALL_BYTES, "above 8 MiB, where NCCL takes over")
    over_nvlink = gpu.link is not None and (
        len(own) > 0 or isinstance(kernels.all_reduce, AllReduceTable | NvlinkAllReduce)
    )
    rings = _rings(nccl, kernels, gpu, over_nvlink=over_nvlink)
    return [_small(own, kernels, gpu), *rings] if over_nvlink else rings


def _small(choice: Choice, kernels: KernelCoefficients, gpu: Gpu) -> Chosen:
    name = "all_reduce_small"
    known = kernels.all_reduce
    defaults = small_values(known if isinstance(known, NvlinkAllReduce) else _guessed_small(gpu))
    return name, choice, lambda choice: Group.of(name, SmallAllReduceFit(), _all_reduce_rows(choice), defaults, choice)


def _guessed_small(gpu: Gpu) -> NvlinkAllReduce:
    """Where the search starts for a GPU that nobody measured: about H100's, at this link's speed."""
    speed = 0.7 * (gpu.link.bytes_per_s if gpu.link is not None else gpu.pcie_bytes_per_s)
    return NvlinkAllReduce(SMALL_BYTES, 5e-6, 0.1e-6, speed, speed, 5e-6, RingAllReduce({2: (0.0, speed)}))


def _rings(nccl: Choice, kernels: KernelCoefficients, gpu: Gpu, *, over_nvlink: bool) -> list[Chosen]:
    """One group for each number of GPUs: above 8 MiB beside a kernel for small messages, else of all sizes."""
    if over_nvlink:
        nccl.keep(nccl.rows["bytes"] > SMALL_BYTES, "up to 8 MiB, which the engine's own kernel reduces")
    chosen: list[Chosen] = []
    for gpus in _GPU_COUNTS:
        name = f"all_reduce_{'large' if over_nvlink else 'pcie'}_n{gpus}"
        choice = nccl.copy().only(nccl.rows["num_gpus"] == gpus)
        chosen.append((name, choice, _ring_maker(name, gpus, ring_values(kernels, gpus, gpu))))
    return chosen


def _ring_maker(name: str, gpus: int, defaults: Values) -> Callable[[Choice], Group]:
    return lambda choice: Group.of(name, RingFit(gpus), _all_reduce_rows(choice), defaults, choice)


def _all_reduce_rows(choice: Choice) -> AllReduceRows:
    gpus = choice.column("num_gpus").astype(np.int64)
    return AllReduceRows(choice.column("latency_us") * 1e-6, choice.column("bytes"), gpus)
