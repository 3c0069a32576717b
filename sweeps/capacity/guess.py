"""Where to begin a search: the load at which the engine's steps would be just full, from the cost of a step alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from servecast.model.forward import ForwardPass
from servecast.model.simulation import SimulationParameters, forward_passes, plan_replica
from servecast.model.slo import Slo
from servecast.model.workload import Workload

# Real traffic is uneven: latencies reach their limits before every step is full.
_EVENNESS = 0.8
# Seconds for a token where no limit says.
_SLOWEST_TOKEN_S = 0.2


def guess_load(parameters: SimulationParameters, workload: Workload, slo: Slo) -> tuple[float, float]:
    """(requests/s, requests at once) of the fleet at its limit, roughly: the largest batch whose steps stay within the
    limit on TPOT, the KV pool and `max_num_seqs`, its prompts computed in between.
    """
    prompt, output = float(workload.prompt_tokens.mean()), float(workload.output_tokens.mean())
    context = prompt + output / 2
    stages = forward_passes(parameters)
    pool = plan_replica(parameters).kv_pool_tokens
    most = int(max(1, min(parameters.scheduler.max_num_seqs, pool / max(context, 1.0))))
    budget = parameters.scheduler.max_num_batched_tokens
    prefills_s = [stage.recompute_seconds(max(1, round(prompt)), budget) for stage in stages]
    batches = np.unique(np.geomspace(1, most, 40).astype(int))
    times = np.array([_token_seconds(stages, int(batch), context, output, prefills_s) for batch in batches])
    within = np.nonzero(times <= _token_limit_s(slo, output))[0]
    best = int(within[-1]) if len(within) else 0
    rate = batches[best] / (times[best] * output)
    return float(rate * _EVENNESS * parameters.replicas), float(batches[best] * parameters.replicas)


def _token_seconds(
    stages: Sequence[ForwardPass], batch: int, context: float, output: float, prefills_s: Sequence[float]
) -> float:
    """Between two tokens of a request: a step of `batch` decodes, and the prompts of those that come for those that
    leave. With several stages the batch goes through them in as many parts.
    """
    lane = max(1, batch // len(stages))
    steps_s = sum(stage.steady_seconds(lane, round(lane * context), round(context)) for stage in stages)
    return steps_s + lane / output * sum(prefills_s)


def _token_limit_s(slo: Slo, output: float) -> float:
    """The strictest limit on the time of a token."""
    limits = [limit.limit_s for limit in slo.limits if limit.metric in ("tpot", "itl")]
    limits += [limit.limit_s / output for limit in slo.limits if limit.metric == "e2el"]
    return min(limits, default=_SLOWEST_TOKEN_S)
