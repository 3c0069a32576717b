"""Which kernel multiplies a weight dtype on a GPU, and with how many bytes an element."""

from __future__ import annotations

from servecast.hardware.engines import KernelCoefficients
from servecast.hardware.errors import ConfigError
from servecast.hardware.gpus import Gpu
from servecast.model.kernels import GemmForm

# Bits per weight element that a GEMM reads, scales included. awq, gptq and w4a16: 4 bits and a 16-bit scale for each
# group of 128; nvfp4: an 8-bit scale for each 16; mxfp4: an 8-bit scale for each 32.
WEIGHT_BITS = {
    "bfloat16": 16.0,
    "float16": 16.0,
    "fp8": 8.0,
    "int8": 8.0,
    "w4a16": 4.125,
    "awq": 4.125,
    "gptq": 4.125,
    "nvfp4": 4.5,
    "mxfp4": 4.25,
}
KV_BYTES = {"auto": 2.0, "fp8": 1.0}

# dtype -> (coefficient group, peak that it needs, bytes per weight, bytes per activation, quantisation traffic per
# activation element). The last three are those of docs/model.md for dynamic activation quantisation.
_QUANTISED_ACTIVATIONS = {
    "fp8": ("fp8", "fp8", 1.0, 1.0, 3.0),
    "int8": ("fp8", "int8", 1.0, 1.0, 3.0),
    "nvfp4": ("nvfp4", "fp4", 0.5625, 0.5625, 2.5625),
}


def native_peak(dtype: str) -> str | None:
    """Peak of the arithmetic that `dtype` has kernels for; None for formats that are always unpacked to 16 bit."""
    return _QUANTISED_ACTIVATIONS[dtype][1] if dtype in _QUANTISED_ACTIVATIONS else None


def gemm_group(dtype: str, gpu: Gpu, kernels: KernelCoefficients) -> str:
    """Key of `kernels.gemm` for weights of `dtype`. Raises ConfigError for an unknown one."""
    if dtype not in WEIGHT_BITS:
        raise ConfigError(f"unknown weight dtype {dtype!r}", hint="Valid: " + ", ".join(WEIGHT_BITS))
    if dtype not in _QUANTISED_ACTIVATIONS:
        return "16bit"
    group, peak = _QUANTISED_ACTIVATIONS[dtype][:2]
    return group if peak in gpu.peak_flops and group in kernels.gemm else "16bit"


def gemm_form(dtype: str, gpu: Gpu, kernels: KernelCoefficients) -> GemmForm:
    """The form for weights of `dtype`. A GPU without arithmetic of that type multiplies in 16 bit and only reads
    fewer bytes.

    int8 uses the coefficients of fp8 (nobody published int8 tables) on the GPU's int8 peak.
    Raises ConfigError for an unknown dtype.
    """
    group = gemm_group(dtype, gpu, kernels)
    if group == "16bit":
        peak, weight_bytes, activation_bytes, quant_bytes = "16bit", WEIGHT_BITS[dtype] / 8, 2.0, 0.0
    else:
        _, peak, weight_bytes, activation_bytes, quant_bytes = _QUANTISED_ACTIVATIONS[dtype]
    return GemmForm(
        coefficients=kernels.gemm[group],
        weight_bytes=weight_bytes,
        activation_bytes=activation_bytes,
        quant_bytes=quant_bytes,
        peak_flops=gpu.peak_flops[peak],
        bytes_per_s=gpu.memory_bytes_per_s,
        sm_count=gpu.sm_count,
    )
