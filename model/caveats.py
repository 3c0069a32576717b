"""What a reader of a run's figures must know of this GPU, model and layout: sentences, where there is something."""

from __future__ import annotations

from collections.abc import Iterator

from servecast.hardware.engines import RingAllReduce
from servecast.model.architecture import Attention
from servecast.model.simulation import SimulationParameters


def caveats(parameters: SimulationParameters) -> Iterator[str]:
    """What the simulation leaves out or takes from weak ground in these `parameters`."""
    yield from _all_reduce(parameters)
    yield from _windows(parameters)


def _all_reduce(parameters: SimulationParameters) -> Iterator[str]:
    gpus, gpu = parameters.layout.tensor_parallel_size, parameters.gpu
    form = parameters.engine.kernels_for(gpu.key).all_reduce
    if gpus == 1 or (gpu.link is not None and gpu.link.domain_gpus >= gpus):
        return
    topology = "The server's topology decides it: do not rank GPUs by this."
    if isinstance(form, RingAllReduce) and gpus in form.per_gpus:
        speed = form.per_gpus[gpus][1] / 1e9
        yield f"All-reduce over PCIe is as measured on one server ({speed:.1f} GB/s with {gpus} GPUs). {topology}"
    else:
        yield (
            f"All-reduce of {gpus} GPUs over PCIe is priced from the datasheet, not measured; servers can be many "
            f"times slower. {topology}"
        )


def _windows(parameters: SimulationParameters) -> Iterator[str]:
    attentions = [layer.attention for layer, _ in parameters.architecture.layer_groups]
    windows = {attention.window for attention in attentions if isinstance(attention, Attention)}
    if len(windows) > 1:
        yield (
            "Some layers have a sliding window, but each sequence is charged blocks for its whole context: with long "
            "prompts fewer run, and more are rejected, than the engine would. Compare with servecast memory --length."
        )
