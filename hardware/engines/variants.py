"""Engine profiles that a calibrated one is compared with: the bare roofline, and as if no GPU had been measured."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from servecast.hardware.engines.profile import (
    Elementwise,
    EngineProfile,
    GemmCoefficients,
    HostTimes,
    KernelCoefficients,
    RingAllReduce,
)
from servecast.hardware.gpus import Gpu

# With this power pnorm is the larger of its arguments but for 0.001 of it.
_SHARP = 512.0
_IDEAL_GEMM = GemmCoefficients(t0_s=0.0, e_c=1.0, e_m=1.0, p=_SHARP)


def ideal(profile: EngineProfile, gpu: Gpu) -> EngineProfile:
    """The datasheet roofline: every efficiency 1, no launch or host times, the link at its datasheet bandwidth.

    The scheduler's rules stay those of `profile`, but for asynchronous scheduling: it hides host time that is not
    there.
    """
    kernels = _ideal_kernels(profile.default_kernels, gpu)
    return replace(
        profile,
        async_scheduling=False,
        host=HostTimes(step_s=0.0, request_s=0.0, server_s=0.0),
        elementwise=Elementwise(kernel_s=0.0, e_m=1.0),
        kernels={},
        default_kernels=kernels,
    )


def unmeasured(profile: EngineProfile, _gpu: Gpu) -> EngineProfile:
    """`profile` with the universal default coefficients for every GPU: what a GPU that nobody measured would get."""
    return replace(profile, kernels={})


def _ideal_kernels(default: KernelCoefficients, gpu: Gpu) -> KernelCoefficients:
    speed = gpu.pcie_bytes_per_s if gpu.link is None else gpu.link.bytes_per_s
    gemm: Mapping[str, GemmCoefficients] = dict.fromkeys(default.gemm, _IDEAL_GEMM)
    return replace(
        default,
        gemm=gemm,
        prefill=replace(default.prefill, t0_s=0.0, e_c=1.0, e_m=1.0, s_half_tokens=0.0, c_tail=0.0),
        decode=replace(default.decode, t0_s=0.0, e_m=1.0, c_item_s=0.0, c_ctx_s_per_token=0.0),
        decode_fp8_kv=None,
        all_reduce=RingAllReduce({gpus: (0.0, speed) for gpus in range(2, gpu.server_gpus + 1)}),
        residuals={},
        sources={},
    )
