"""Which groups of kernel coefficients the price of a model's steps rests on."""

from __future__ import annotations

from collections.abc import Iterator

from servecast.hardware.engines import KernelCoefficients
from servecast.hardware.gpus import Gpu
from servecast.model.architecture import Architecture, LatentAttention, MoeMlp
from servecast.model.layout import ReplicaLayout
from servecast.model.mla_cost import latent_groups
from servecast.model.moe_cost import expert_group
from servecast.model.precision import KV_BYTES
from servecast.model.weights import effective_quantization

_OF_SOME_MODELS = ("moe_", "mla_", "all_to_all_")


def groups_in_use(
    architecture: Architecture, layout: ReplicaLayout, gpu: Gpu, kernels: KernelCoefficients
) -> tuple[str, ...]:
    """Of the groups that have a residual, those of dense layers, and those of experts and latent attention that this
    model and layout take.
    """
    special = set(special_groups(architecture, layout, gpu, kernels))
    return tuple(g for g in kernels.residuals if g in special or not g.startswith(_OF_SOME_MODELS))


def special_groups(
    architecture: Architecture, layout: ReplicaLayout, gpu: Gpu, kernels: KernelCoefficients
) -> Iterator[str]:
    """Of experts, latent attention and the all-to-all."""
    quantization = effective_quantization(architecture, layout.dtype)
    layers = [layer for layer, _ in architecture.layer_groups]
    if any(isinstance(layer.mlp, MoeMlp) for layer in layers):
        spread = layout.enable_expert_parallel and layout.tensor_parallel_size > 1
        group = expert_group(quantization, gpu, kernels, expert_parallel=spread)
        yield from (f"moe_{name}" for name in (group, f"{group}_small") if name in kernels.moe)
        if spread and layout.all2all_backend is not None:
            mode = "ll" if layout.all2all_backend == "deepep_low_latency" else "ht"
            yield from (f"all_to_all_{way}" for way in kernels.all_to_all if way.startswith(mode))
    if any(isinstance(layer.attention, LatentAttention) for layer in layers):
        prefill, decode, short = latent_groups(quantization, KV_BYTES[layout.kv_cache_dtype], gpu, kernels)
        yield from (f"mla_prefill_{prefill}", f"mla_decode_{decode}")
        if short is not None:
            yield f"mla_short_{short}"
