"""What a run costs and draws, from the time that its GPUs are there."""

from __future__ import annotations

from typing import Any

from servecast.hardware.prices import PowerModel
from servecast.model.metrics import duration_s
from servecast.model.records import COMPLETED
from servecast.model.simulation import SimulationParameters, SimulationResult

MILLION = 1e6


def gpu_count(parameters: SimulationParameters) -> int:
    """GPUs of all replicas."""
    layout = parameters.layout
    return layout.tensor_parallel_size * layout.pipeline_parallel_size * parameters.replicas


def prefill_share(result: SimulationResult) -> float:
    """Share of the steps' time that goes to prompts: a step with prompt chunks is split by its tokens, any other is
    all output. 0 for a run without steps.
    """
    steps = result.steps
    seconds = steps["count"] * steps["duration_s"] + steps["slope_s"] * steps["count"] * (steps["count"] - 1) / 2
    tokens = steps["prefill_tokens"] + steps["decodes"]
    total = float(seconds.sum())
    return float(seconds @ (steps["prefill_tokens"] / tokens.clip(min=1))) / total if total else 0.0


def token_costs(result: SimulationResult, usd_per_gpu_hour: float | None) -> dict[str, Any]:
    """USD an hour, and for a million tokens of completed requests. None where there is no price or no token.

    blended: all the cost over all tokens. input, output: the cost split by `prefill_share`, each part over its own
    tokens, so that input tokens x input + output tokens x output is all the cost. output_only: all the cost over the
    output tokens. Idle time is paid for too: it is in all of them.
    """
    done = result.requests["state"] == COMPLETED
    inputs = int(result.workload.prompt_tokens[done].sum())
    outputs = int(result.workload.output_tokens[done].sum())
    per_hour = None if usd_per_gpu_hour is None else usd_per_gpu_hour * gpu_count(result.parameters)
    usd = None if per_hour is None else per_hour * duration_s(result) / 3600
    share = prefill_share(result)
    return {
        "usd_per_hour": per_hour,
        "usd_per_million_tokens": {
            "input": _per_million(usd, inputs, share),
            "output": _per_million(usd, outputs, 1 - share),
            "blended": _per_million(usd, inputs + outputs),
            "output_only": _per_million(usd, outputs),
        },
    }


def _per_million(usd: float | None, tokens: int, share: float = 1.0) -> float | None:
    return usd * share / tokens * MILLION if usd is not None and tokens else None


def energy(result: SimulationResult, busy: float, power: PowerModel) -> dict[str, Any]:
    """Watts of all GPU boards and at the meter, averages over the run, and joules of the boards for each token of
    completed requests: for each output token all of them, for each token of input or output likewise.

    busy: share of the time in which steps run, the summary's `utilization`.
    """
    parameters, duration = result.parameters, duration_s(result)
    gpus, tdp_w = gpu_count(parameters), parameters.gpu.tdp_w
    watts = gpus * power.gpu_watts(tdp_w, busy)
    done = result.requests["state"] == COMPLETED
    outputs = int(result.workload.output_tokens[done].sum())
    tokens = outputs + int(result.workload.prompt_tokens[done].sum())
    return {
        "gpu_watts": watts,
        "wall_watts": gpus * power.wall_watts(tdp_w, busy),
        "joules_per_output_token": watts * duration / outputs if outputs else None,
        "joules_per_token": watts * duration / tokens if tokens else None,
    }
