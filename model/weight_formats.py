"""Whether a GPU's engines take a format of weights, and how far its price is founded."""

from __future__ import annotations

from collections.abc import Iterator

from servecast.hardware.errors import ConfigError
from servecast.hardware.gpus import Gpu
from servecast.model.architecture import Architecture, Quantization
from servecast.model.precision import native_peak
from servecast.model.weights import effective_quantization

# Generations whose tensor cores know float16 but not bfloat16.
_WITHOUT_BFLOAT16 = ("Volta", "Turing")
_FOUR_BIT = ("w4a16", "awq", "gptq", "mxfp4")


def check_format(architecture: Architecture, dtype: str, gpu: Gpu) -> None:
    """Raise ConfigError for weights that no engine multiplies on `gpu`, in whatever way."""
    quantization = effective_quantization(architecture, dtype)
    if quantization is not None and quantization.dtype == "nvfp4" and gpu.vendor == "AMD":
        raise ConfigError(
            f"no engine serves nvfp4 weights on {gpu.name}: the format is NVIDIA's",
            key="replica.dtype",
            hint="Take fp8, mxfp4 or w4a16 there",
        )


def format_caveats(architecture: Architecture, dtype: str, gpu: Gpu) -> Iterator[str]:
    """What a reader must know of the price of these weights on `gpu`."""
    quantization = effective_quantization(architecture, dtype)
    if architecture.dtype == "bfloat16" and dtype == "bfloat16" and gpu.generation in _WITHOUT_BFLOAT16:
        yield f"{gpu.name} has no bfloat16: engines serve the model in float16 there, at the same size and speed."
    if quantization is not None:
        yield from _unpacked(quantization, gpu)


def is_unpacked(quantization: Quantization, gpu: Gpu) -> bool:
    """Whether kernels unpack such weights on `gpu` and multiply in 16 bit."""
    if quantization.dtype in _FOUR_BIT:
        return bool({"attention", "mlp"} - quantization.ignored)
    peak = native_peak(quantization.dtype)
    return peak is not None and peak not in gpu.peak_flops


def _unpacked(quantization: Quantization, gpu: Gpu) -> Iterator[str]:
    """Weight-only kernels read fewer bytes and multiply in 16 bit."""
    dtype = quantization.dtype
    price = "priced as 16-bit multiplications that read fewer bytes, at the rates of the 16-bit kernels; not measured"
    if dtype in _FOUR_BIT and is_unpacked(quantization, gpu):
        yield f"Matrices in {dtype} are {price}."
    elif is_unpacked(quantization, gpu):
        yield f"{gpu.name} does not multiply in {dtype}: its kernels unpack such weights. They are {price}."
