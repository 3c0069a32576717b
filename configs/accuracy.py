"""How far off the figures of a simulation may be: its situation, and what measured runs like it say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from servecast.hardware.accuracy import Situation, expected_error
from servecast.model.architecture import Architecture, LatentAttention, MoeMlp
from servecast.model.caveats import caveats
from servecast.model.kernel_groups import groups_in_use
from servecast.model.regime import regime
from servecast.model.simulation import SimulationParameters
from servecast.model.weight_formats import is_unpacked
from servecast.model.weights import effective_quantization


def accuracy(parameters: SimulationParameters, summary: Mapping[str, Any]) -> dict[str, Any]:
    """The summary's `accuracy`: label, bands in percent (None where nothing was measured), what they rest on, caveats.

    summary: of the simulation of `parameters`; its load decides which runs are nearest.
    """
    situation = situation_of(parameters, regime(summary))
    error = expected_error(situation)
    kernels = parameters.engine.kernels_for(parameters.gpu.key)
    groups = groups_in_use(parameters.architecture, parameters.layout, parameters.gpu, kernels)
    return {
        "label": error.label,
        **{f"{figure}_pct": error.pct.get(figure) for figure in ("tpot", "ttft", "throughput")},
        "n": dict(error.n),
        "basis": dict(error.basis),
        "widened": list(error.widened),
        "load": situation.load,
        "calibration": situation.calibration,
        "gpu": parameters.gpu.key,
        "engine": parameters.engine.key,
        "dtype": situation.dtype,
        "kernel_residuals": {group: kernels.residuals[group] for group in groups},
        "caveats": list(caveats(parameters)),
    }


def situation_of(parameters: SimulationParameters, load: str) -> Situation:
    """What the nearest measured runs are told by. load: of the run, as `regime` has it."""
    layout, kernels = parameters.layout, parameters.engine.kernels_for(parameters.gpu.key)
    quantization = effective_quantization(parameters.architecture, layout.dtype)
    return Situation(
        gpu=parameters.gpu.key,
        engine=parameters.engine.engine,
        dtype="16bit" if quantization is None else quantization.dtype,
        kind=_kind(parameters.architecture),
        load=load,
        link=_link(parameters),
        stages=layout.pipeline_parallel_size,
        calibration=kernels.calibration,
        calibrated_on=kernels.calibrated_on,
        unpacked=quantization is not None and is_unpacked(quantization, parameters.gpu),
    )


def _kind(architecture: Architecture) -> str:
    layers = [layer for layer, _ in architecture.layer_groups]
    if any(isinstance(layer.attention, LatentAttention) for layer in layers):
        return "mla"
    return "moe" if any(isinstance(layer.mlp, MoeMlp) for layer in layers) else "dense"


def _link(parameters: SimulationParameters) -> str:
    gpus, link = parameters.layout.tensor_parallel_size, parameters.gpu.link
    if gpus == 1:
        return "one"
    return "fast" if link is not None and link.domain_gpus >= gpus else "pcie"
