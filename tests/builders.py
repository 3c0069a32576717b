"""Small parts that many tests are made of: a tiny model, a GPU, engines whose steps take a known time, runs of a few
requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from servecast.configs.build import build_simulation
from servecast.configs.load import scenario_from
from servecast.hardware.engines import (
    DecodeCoefficients,
    Elementwise,
    EngineProfile,
    GemmCoefficients,
    HostTimes,
    KernelCoefficients,
    PrefillCoefficients,
    load_engine,
)
from servecast.hardware.gpus import Gpu, load_gpu
from servecast.hardware.measure.loop import CannotMeasureError
from servecast.hardware.measure.plan import Item, Machine
from servecast.model.architecture import Architecture, Attention, DenseMlp, Layer
from servecast.model.arrivals import Arrivals, TraceArrivals
from servecast.model.identity import IdentityParameters
from servecast.model.layout import ReplicaLayout
from servecast.model.lengths import EmpiricalLengths
from servecast.model.metrics import summarise
from servecast.model.precision import gemm_form
from servecast.model.preemption import PreemptionParameters
from servecast.model.scheduler_parameters import SchedulerParameters
from servecast.model.simulation import SimulationParameters, SimulationResult, run_simulation
from servecast.model.workload import WorkloadParameters


def tiny_model(windows: Sequence[int | None] = (None, None), **changes: Any) -> Architecture:
    """A model of a few megabytes, one layer for each of `windows`."""
    layers = tuple(Layer(Attention(8, 4, 64, window), DenseMlp(1024)) for window in windows)
    architecture = Architecture("tiny", "Tiny", 512, 4096, False, layers, max_model_len=8192)
    return replace(architecture, **changes)


def llama_8b() -> Architecture:
    """Llama-3.1-8B, written out."""
    layer = Layer(Attention(32, 8, 128), DenseMlp(14336))
    return Architecture("llama-3.1-8b", "Llama-3.1-8B", 4096, 128256, False, (layer,) * 32, 131072)


def real_engine(**changes: Any) -> EngineProfile:
    return replace(load_engine("vllm-0.19"), **changes)


def clock_engine(step_s: float = 1.0, *, asynchronous: bool = False, server_s: float = 0.0) -> EngineProfile:
    """An engine whose every step takes `step_s`, whatever is in it (but for some 1e-20 s)."""
    free = KernelCoefficients(
        calibration="measured",
        gemm={"16bit": GemmCoefficients(t0_s=0.0, e_c=1e20, e_m=1e20, p=2.0)},
        prefill=PrefillCoefficients(t0_s=0.0, e_c=1e20, e_m=1e20, s_half_tokens=0.0, c_tail=0.0),
        decode=DecodeCoefficients(t0_s=0.0, e_m=1e20, c_item_s=0.0, c_ctx_s_per_token=0.0),
        decode_fp8_kv=None,
        all_reduce=None,
        residuals={},
        sources={},
    )
    return replace(
        load_engine("vllm-0.19"),
        async_scheduling=asynchronous,
        host=HostTimes(step_s=step_s, request_s=0.0, server_s=server_s),
        elementwise=Elementwise(kernel_s=0.0, e_m=1e20),
        graphs=None,
        kernels={},
        default_kernels=free,
    )


def a_gpu(**changes: Any) -> Gpu:
    return replace(load_gpu("h100-sxm"), **changes)


def trace(requests: Sequence[tuple[float, int, int]], **identity: Any) -> WorkloadParameters:
    """Requests given as (arrival in s, prompt tokens, output tokens). identity: fields of IdentityParameters."""
    times, prompts, outputs = (np.array(column) for column in zip(*requests, strict=True))
    return with_lengths(TraceArrivals(times.astype(np.float64)), prompts, outputs, **identity)


def with_lengths(arrivals: Arrivals, prompts: Any, outputs: Any, **identity: Any) -> WorkloadParameters:
    """One request for each of `prompts` and `outputs`. identity: fields of IdentityParameters."""
    lengths = EmpiricalLengths(np.asarray(prompts, dtype=np.int64), np.asarray(outputs, dtype=np.int64))
    return WorkloadParameters(arrivals, lengths, len(lengths), IdentityParameters(**identity))


def scheduler_parameters(**settings: Any) -> SchedulerParameters:
    """`settings`: fields of SchedulerParameters and of PreemptionParameters, whose mode is `preemption`."""
    names = ("victim", "reinsert", "swap_space_gib", "swap_copy_s", "swap_overlap")
    preemption = {name: settings.pop(name) for name in names if name in settings}
    mode = settings.pop("preemption", "recompute")
    return SchedulerParameters(preemption=PreemptionParameters(mode=mode, **preemption), **settings)


def gemm_table_text(**values: float) -> str:
    """A table of 16-bit GEMMs on an H100, as `servecast calibrate` reads it, with the times of these coefficients
    (t0_us, e_c, e_m, p).
    """
    gpu = a_gpu()
    made = GemmCoefficients(values["t0_us"] * 1e-6, values["e_c"], values["e_m"], values["p"])
    form = replace(gemm_form("bfloat16", gpu, real_engine().kernels_for(gpu.key)), coefficients=made)
    shapes = [(m, n, k) for m in (1, 16, 64, 256, 1024, 8192) for n in (1024, 2048, 4096, 8192) for k in (2048, 8192)]
    times = [form.seconds(np.array([float(m)]), n, k).total_s[0] * 1e6 for m, n, k in shapes]
    lines = [f"{m},{n},{k},{time_us:.6g},flushed" for (m, n, k), time_us in zip(shapes, times, strict=True)]
    return "\n".join(("m,n,k,latency_us,cache", *lines, ""))


ONE_H100 = Machine(memory_bytes=80 * 2**30, gpus=1, fp8=True)


def bench_result(clients: int, host: HostTimes, requests: int = 24) -> dict[str, Any]:
    """What `vllm bench serve` would write of a closed loop of `clients` on vLLM 0.12, Llama-3.1-8B on one H100, if the
    simulator were the engine and its host took the times of `host`.
    """
    lengths = {side: {"distribution": "fixed", "value": tokens} for side, tokens in (("prompt", 256), ("output", 32))}
    arrivals = {"process": "closed_loop", "concurrency": clients}
    workload = {"num_requests": requests, "arrivals": arrivals, "lengths": lengths}
    named = {"model": "llama-3.1-8b", "gpu": "h100-sxm", "engine": "vllm-0.12"}
    parameters = build_simulation(scenario_from({**named, "workload": workload}))
    summary = summarise(run_simulation(replace(parameters, engine=replace(parameters.engine, host=host))))
    kept = [key for key in summary if key.endswith("_ms")]
    kept += ["duration", "completed", "total_input_tokens", "total_output_tokens", "output_throughput"]
    stated = {"model_id": "meta-llama/Llama-3.1-8B", "request_rate": "inf", "max_concurrency": clients}
    return {key: summary[key] for key in kept} | stated


@dataclass
class FakeDevice:
    """A device for `servecast measure` whose runs take the times of `times_s` in turn, on a clock of its own.

    too_large: items that it refuses. stop_after: runs until someone presses Ctrl-C.
    """

    times_s: Sequence[float] = (1e-5,)
    machine: Machine = ONE_H100
    too_large: tuple[Item, ...] = ()
    stop_after: int | None = None
    runs: int = 0
    now_s: float = 0.0
    backend: str = "torch"
    version: str = "2.9"
    kernel_source: str = "fake"
    cache: str = "flushed"

    def prepare(self, item: Item) -> FakeDevice:
        if item in self.too_large:
            raise CannotMeasureError("out of memory")
        return self

    def run_s(self) -> float:
        if self.runs == self.stop_after:
            raise KeyboardInterrupt
        seconds = self.times_s[self.runs % len(self.times_s)]
        self.runs += 1
        self.now_s += 0.01
        return seconds

    def clock(self) -> float:
        return self.now_s


def run(
    workload: WorkloadParameters,
    *,
    engine: EngineProfile | None = None,
    architecture: Architecture | None = None,
    gpu: Gpu | None = None,
    blocks: int | None = 1000,
    block_size: int = 16,
    coast: bool = True,
    replicas: int = 1,
    stages: int = 1,
    layout: ReplicaLayout | None = None,
    **scheduler: Any,
) -> SimulationResult:
    """Simulate `workload`; `scheduler` takes the fields of SchedulerParameters and PreemptionParameters (`preemption`
    is its mode), `blocks` the size of the KV pool.
    """
    parameters = SimulationParameters(
        architecture=architecture or tiny_model(),
        gpu=gpu or a_gpu(),
        engine=engine or clock_engine(),
        layout=layout or ReplicaLayout(pipeline_parallel_size=stages, kv_pool_blocks=blocks, block_size=block_size),
        scheduler=scheduler_parameters(**scheduler),
        workload=workload,
        replicas=replicas,
        coast=coast,
    )
    return run_simulation(parameters)
