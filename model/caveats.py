"""What a reader of a run's figures must know of this GPU, model and layout: sentences, where there is something."""

from __future__ import annotations

from collections.abc import Iterator

from servecast.hardware.engines import AllReduceTable, NvlinkAllReduce, RingAllReduce
from servecast.model.architecture import Attention, LatentAttention
from servecast.model.collectives import pcie_share
from servecast.model.kernel_groups import special_groups
from servecast.model.precision import gemm_group
from servecast.model.simulation import SimulationParameters
from servecast.model.weight_formats import format_caveats
from servecast.model.weights import effective_quantization


def caveats(parameters: SimulationParameters) -> Iterator[str]:
    """What the simulation leaves out or takes from weak ground in these `parameters`."""
    yield from _all_reduce(parameters)
    yield from _windows(parameters)
    if parameters.layout.pipeline_parallel_size > 1:
        yield "Pipeline stages were compared with no measured run; steps are planned without asynchronous scheduling."
    yield from format_caveats(parameters.architecture, parameters.layout.dtype, parameters.gpu)
    yield from _matrices(parameters)
    yield from _experts_and_latents(parameters)
    yield from _sparse_attention(parameters)
    yield from _eight_bit_cache(parameters)


def _all_reduce(parameters: SimulationParameters) -> Iterator[str]:
    """Of layouts whose all-reduce was not measured: over an unmeasured link, or (in part) over PCIe."""
    gpus, gpu = parameters.layout.tensor_parallel_size, parameters.gpu
    kernels = parameters.engine.kernels_for(gpu.key)
    measured = gpus in gpu.all_reduce or isinstance(kernels.all_reduce, RingAllReduce)
    if gpus == 1 or measured or isinstance(kernels.all_reduce, AllReduceTable | NvlinkAllReduce):
        return
    if gpu.link is not None and gpu.link.domain_gpus >= gpus:
        yield (
            f"All-reduce over {gpu.link.name} was not measured on this GPU: its latency is that of others' links, its "
            "bandwidth the datasheet's times their share."
        )
        return
    share, pcie = pcie_share(gpus, kernels), gpu.pcie_bytes_per_s / 1e9
    yield (
        f"All-reduce of {gpus} GPUs over PCIe is priced at {share.share * pcie:.0f} GB/s, typical of servers that were "
        f"measured; they reach {share.lowest * pcie:.0f} to {share.highest * pcie:.0f} GB/s with this link, by their "
        "topology and not by the GPU. Measure yours (all_reduce_perf of nccl-tests) and state it as all_reduce in the "
        "GPU's file."
    )


def _windows(parameters: SimulationParameters) -> Iterator[str]:
    attentions = [layer.attention for layer, _ in parameters.architecture.layer_groups]
    windows = {attention.window for attention in attentions if isinstance(attention, Attention)}
    if windows - {None} and parameters.scheduler.enable_prefix_caching:
        yield (
            "Some layers have a sliding window, but with enable_prefix_caching each sequence is charged blocks for its "
            "whole context: with long prompts fewer run, and more are rejected, than the engine would. Compare with "
            "servecast memory --length."
        )


def _matrices(parameters: SimulationParameters) -> Iterator[str]:
    """Those of a format that was not measured on a GPU of which others were."""
    kernels = parameters.engine.kernels_for(parameters.gpu.key)
    quantization = effective_quantization(parameters.architecture, parameters.layout.dtype)
    if quantization is None or kernels.calibration == "datasheet":
        return
    group = f"gemm_{gemm_group(quantization.dtype, parameters.gpu, kernels)}"
    if group in kernels.typical and group != "gemm_16bit":
        yield (
            f"Matrices in {quantization.dtype} were not measured on this GPU: the rates are typical of others "
            f"({group}: {kernels.residuals[group]})."
        )


def _experts_and_latents(parameters: SimulationParameters) -> Iterator[str]:
    """Their kernels, where they are those that are typical of other GPUs."""
    kernels = parameters.engine.kernels_for(parameters.gpu.key)
    groups = set(special_groups(parameters.architecture, parameters.layout, parameters.gpu, kernels))
    words = {"moe_": "Kernels of experts", "mla_": "Latent attention"}
    for prefix, what in words.items():
        typical = sorted(group for group in groups & kernels.typical if group.startswith(prefix))
        if typical:
            errors = "; ".join(f"{group}: {kernels.residuals[group]}" for group in typical)
            yield f"{what}, of this format, was not measured on this GPU: the rates are typical of others. {errors}."


def _sparse_attention(parameters: SimulationParameters) -> Iterator[str]:
    attentions = [layer.attention for layer, _ in parameters.architecture.layer_groups]
    if any(isinstance(attention, LatentAttention) and attention.index_topk for attention in attentions):
        yield (
            "Sparse attention is priced by its sizes: latents of the chosen tokens, and the index of all, at the rates "
            "of dense latent attention. Its kernels were not fitted."
        )


def _eight_bit_cache(parameters: SimulationParameters) -> Iterator[str]:
    kernels = parameters.engine.kernels_for(parameters.gpu.key)
    attentions = [layer.attention for layer, _ in parameters.architecture.layer_groups]
    grouped = any(isinstance(attention, Attention) for attention in attentions)
    if parameters.layout.kv_cache_dtype == "fp8" and grouped and kernels.decode_fp8_kv is None:
        yield "An FP8 KV cache was not measured on this GPU: half the bytes are read at the rate of 16-bit ones."
