"""Which kernels the parts of a model take on a GPU: by the format of their weights, the engine and the layout."""

from __future__ import annotations

from servecast.hardware.engines import EngineProfile
from servecast.hardware.gpus import Gpu
from servecast.model.architecture import Architecture, LatentAttention, MoeMlp, Quantization
from servecast.model.expert_exchange import expert_exchange
from servecast.model.layer_cost import LayerCost
from servecast.model.mla_cost import LatentShape, latent_form
from servecast.model.moe_cost import expert_form
from servecast.model.precision import gemm_form
from servecast.model.weights import effective_quantization


def layer_cost(
    architecture: Architecture,
    gpu: Gpu,
    engine: EngineProfile,
    *,
    dtype: str,
    kv_bytes: float,
    gpus: int,
    expert_parallel: bool,
    all2all_backend: str | None,
) -> LayerCost:
    """The prices of one layer of `architecture`; arguments as for `build_forward_pass`."""
    kernels = engine.kernels_for(gpu.key)
    quantization = effective_quantization(architecture, dtype)
    has_experts = any(isinstance(layer.mlp, MoeMlp) for layer, _ in architecture.layer_groups)
    latent = {
        attention: latent_form(
            LatentShape(attention, architecture.hidden_size, attention.num_heads // gpus),
            quantization,
            kv_bytes,
            gpu,
            kernels,
        )
        for attention in (layer.attention for layer, _ in architecture.layer_groups)
        if isinstance(attention, LatentAttention)
    }
    spread = expert_parallel and gpus > 1
    return LayerCost(
        gpu=gpu,
        kernels=kernels,
        elementwise=engine.elementwise,
        fusions=engine.fusions,
        sampling_s=engine.host.sampling_bytes / gpu.memory_bytes_per_s,
        attention=gemm_form(_part_dtype(quantization, "attention"), gpu, kernels),
        mlp=gemm_form(_part_dtype(quantization, "mlp"), gpu, kernels),
        shared_experts=gemm_form(_part_dtype(quantization, "shared_experts"), gpu, kernels),
        plain=gemm_form("bfloat16", gpu, kernels),
        experts=expert_form(quantization, gpu, kernels, expert_parallel=spread) if has_experts else None,
        latent=latent,
        expert_parallel=spread,
        exchange=expert_exchange(gpus, all2all_backend, gpu, kernels) if spread and all2all_backend else None,
        hidden_size=architecture.hidden_size,
        gpus=gpus,
    )


def _part_dtype(quantization: Quantization | None, part: str) -> str:
    """Weight dtype of a part of the layers; "bfloat16" stands for either 16-bit type."""
    return "bfloat16" if quantization is None or part in quantization.ignored else quantization.dtype
