"""What a reader of a run's figures must know of this GPU, model and layout: sentences, where there is something."""

from __future__ import annotations

from collections.abc import Iterator

from servecast.hardware.engines import NvlinkAllReduce, RingAllReduce
from servecast.model.architecture import Attention
from servecast.model.collectives import pcie_share
from servecast.model.simulation import SimulationParameters


def caveats(parameters: SimulationParameters) -> Iterator[str]:
    """What the simulation leaves out or takes from weak ground in these `parameters`."""
    yield from _all_reduce(parameters)
    yield from _windows(parameters)
    if parameters.layout.pipeline_parallel_size > 1:
        yield "Pipeline stages were compared with no measured run; steps are planned without asynchronous scheduling."


def _all_reduce(parameters: SimulationParameters) -> Iterator[str]:
    """Of layouts whose all-reduce was not measured: over an unmeasured link, or (in part) over PCIe."""
    gpus, gpu = parameters.layout.tensor_parallel_size, parameters.gpu
    kernels = parameters.engine.kernels_for(gpu.key)
    measured = gpus in gpu.all_reduce or isinstance(kernels.all_reduce, RingAllReduce)
    if gpus == 1 or measured or isinstance(kernels.all_reduce, NvlinkAllReduce):
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
