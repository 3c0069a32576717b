"""The summary of a simulation: vLLM's benchmark figures under vLLM's names, and what limited the run."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from servecast.model.cohorts import cohorts
from servecast.model.operating_points import operating_points
from servecast.model.records import COMPLETED, REJECTED, UNFINISHED
from servecast.model.simulation import SimulationResult
from servecast.model.slo import Slo, SloLimit
from servecast.model.statistics import describe_ms, peak_overlap, weighted_percentiles

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

# Steps of a run are taken together for the ITL as far as they differ by no more than this share.
_RUN_TOLERANCE = 1e-3
# A queue time that grows by more than this share of the time that passes means that more arrives than is served.
_GROWING_QUEUE = 0.02
# A share of requests that wait for admission from which on the replica counts as saturated.
_WAITING_SHARE = 0.05


def summarise(result: SimulationResult) -> dict[str, Any]:
    """All figures of a run, times in ms unless a key says otherwise. duration (s) counts from the first arrival to the
    last token. Figures of requests are those of completed ones; None stands for "no such request".
    """
    everybody = np.ones(len(result.workload), dtype=np.bool_)
    times = request_times(result)
    summary = _requests_summary(result, times, everybody)
    summary["max_concurrent_requests"] = _max_concurrent(result)
    summary |= _keys("itl", describe_ms(*token_gaps_s(result)))
    summary["slo"] = _slo_verdict(result.parameters.slo, summary, times)
    summary |= _counters(result) | _limits(result) | {"roofline": operating_points(result)}
    if result.parameters.cohorts is not None:
        members = cohorts(result.parameters.cohorts, result.workload)
        summary["cohorts"] = {name: _requests_summary(result, times, mask) for name, mask in members}
    return summary


def _requests_summary(result: SimulationResult, times: dict[str, Floats], chosen: Mask) -> dict[str, Any]:
    """What can be said of a set of requests. Rates are over the whole run's duration."""
    requests, workload = result.requests, result.workload
    done = (requests["state"] == COMPLETED) & chosen
    outputs, prompts = workload.output_tokens[done].sum(), workload.prompt_tokens[done].sum()
    duration = duration_s(result)
    good = _good(result.parameters.slo, times, chosen)
    summary: dict[str, Any] = {
        "duration": duration,
        "completed": int(done.sum()),
        "failed": int(chosen.sum() - done.sum()),
        "total_input_tokens": int(prompts),
        "total_output_tokens": int(outputs),
        "request_throughput": _per_second(done.sum(), duration),
        "request_goodput": None if good is None else _per_second(good, duration),
        "goodput_share": None if good is None or not chosen.any() else good / int(chosen.sum()),
        "output_throughput": _per_second(outputs, duration),
        "total_token_throughput": _per_second(outputs + prompts, duration),
    }
    for metric in ("ttft", "tpot", "e2el"):
        values = times[metric][chosen]
        summary |= _keys(metric, describe_ms(values[~np.isnan(values)]))
    waits = (requests["scheduled_s"] - requests["queued_s"])[chosen]
    summary["queue_time"] = describe_ms(waits[~np.isnan(waits)])
    summary["rejected"] = _rejected(result, chosen)
    summary["unfinished"] = int(((requests["state"] == UNFINISHED) & chosen).sum())
    summary["preemptions"] = int(requests["preemptions"][chosen].sum())
    summary["requests_preempted"] = int((requests["preemptions"][chosen] > 0).sum())
    summary["max_preemptions"] = int(requests["preemptions"][chosen].max(initial=0))
    return summary


def _rejected(result: SimulationResult, chosen: Mask) -> dict[str, int]:
    rejected: dict[str, int] = {}
    for id, reason in result.reasons.items():
        if chosen[id]:
            rejected[reason] = rejected.get(reason, 0) + 1
    return rejected


def request_times(result: SimulationResult) -> dict[str, Floats]:
    """Seconds of TTFT, TPOT and E2EL by request, NaN where it has none (TPOT of a single token: no gap)."""
    requests = result.requests
    ttft = requests["first_token_s"] - requests["arrival_s"]
    e2el = requests["finish_s"] - requests["arrival_s"]
    gaps = (result.workload.output_tokens - 1).astype(np.float64)
    tpot = np.divide(e2el - ttft, gaps, out=np.full(len(gaps), np.nan), where=gaps > 0)
    # A request that was cut off after its first token has a TTFT, but vLLM reports completed requests only.
    ttft = np.where(requests["state"] == COMPLETED, ttft, np.nan)
    return {"ttft": ttft, "tpot": tpot, "e2el": e2el}


def duration_s(result: SimulationResult) -> float:
    """From the first arrival to the last token, in seconds; 0 if nothing completed."""
    finish = result.requests["finish_s"]
    if np.all(np.isnan(finish)):
        return 0.0
    return float(np.nanmax(finish) - np.nanmin(result.requests["arrival_s"]))


def token_gaps_s(result: SimulationResult) -> tuple[Floats, Floats]:
    """(gaps, counts): every gap between two tokens of a request, in seconds, and how often it occurs."""
    steps = result.steps
    used = steps["steady_decodes"] > 0
    decodes, count = steps["steady_decodes"][used], steps["count"][used]
    first_s, duration, slope = steps["gap_s"][used], steps["duration_s"][used], steps["slope_s"][used]
    # The first step of a row has its own gap; the others of a run are cut into pieces, each with its mean.
    rest = count - 1
    pieces = np.minimum(rest, np.ceil(slope * rest / (_RUN_TOLERANCE * duration) + 1e-9)).astype(np.int64)
    rows = np.repeat(np.arange(len(rest)), pieces)
    ends = np.cumsum(pieces)
    number = np.arange(len(rows)) - np.repeat(ends - pieces, pieces)
    low = np.floor(number * rest[rows] / pieces[rows])
    high = np.floor((number + 1) * rest[rows] / pieces[rows])
    gaps = duration[rows] + slope[rows] * (low + high + 1) / 2
    counts = (high - low) * decodes[rows]
    resumed = result.resumed_gaps_s
    return np.concatenate([first_s, gaps, resumed]), np.concatenate([decodes, counts, np.ones(len(resumed))])


def _keys(metric: str, described: dict[str, float | None]) -> dict[str, float | None]:
    return {f"{name}_{metric}_ms": value for name, value in described.items()}


def _per_second(amount: float, duration: float) -> float:
    return float(amount / duration) if duration > 0 else 0.0


def _good(slo: Slo | None, times: dict[str, Floats], chosen: Mask) -> int | None:
    """Completed requests within every limit, None without limits; a request of one token has no TPOT to miss."""
    if slo is None:
        return None
    good = ~np.isnan(times["e2el"]) & chosen
    for metric, limit_s in slo.request_limits_s.items():
        good &= ~(times[metric] > limit_s)
    return int(good.sum())


def _slo_verdict(slo: Slo | None, summary: dict[str, Any], times: dict[str, Floats]) -> list[dict[str, Any]] | None:
    """Each limit with the value it is held against (ms), and whether it is met. A limit on each request is held against
    the slowest.
    """
    if slo is None:
        return None
    verdicts = []
    for limit in slo.limits:
        value = _limited_value_ms(limit, summary, times)
        met = value is not None and value <= limit.limit_s * 1e3
        verdicts.append({"limit": str(limit), "value_ms": value, "met": met})
    return verdicts


def _limited_value_ms(limit: SloLimit, summary: dict[str, Any], times: dict[str, Floats]) -> float | None:
    known = summary.get(f"{limit.statistic}_{limit.metric}_ms")
    if known is not None or limit.metric == "itl":
        return known
    values = times[limit.metric][~np.isnan(times[limit.metric])]
    if not len(values):
        return None
    percentile = 100.0 if limit.percentile is None else limit.percentile
    return float(np.percentile(values, percentile)) * 1e3


def _max_concurrent(result: SimulationResult) -> int:
    requests = result.requests
    here = ~np.isnan(requests["arrival_s"]) & (requests["state"] != REJECTED)
    return peak_overlap(requests["arrival_s"][here], np.nan_to_num(requests["finish_s"][here], nan=np.inf))


def _counters(result: SimulationResult) -> dict[str, Any]:
    recomputed = int(result.requests["recomputed_tokens"].sum())
    computed = int(result.steps["prefill_tokens"].sum() + (result.steps["decodes"] * result.steps["count"]).sum())
    return {
        "recomputed_tokens": recomputed,
        "recompute_ratio": recomputed / computed if computed else 0.0,
        "recompute_seconds": result.recompute_seconds,
        "swap_bytes": result.swap_bytes,
        "swap_seconds": result.seconds_by_resource["host_link"],
        "swap_fallbacks": result.swap_fallbacks,
        "thrash_events": [{"replica": r, "time_s": t, "ratio": ratio} for r, t, ratio in result.thrash_events],
        "stalled": list(result.stalled),
        "livelocked": list(result.livelocked),
        "livelocked_unfinished": [id for id in result.livelocked if result.requests["state"][id] == UNFINISHED],
        "prefix_hit_rate": result.prefix_hit_tokens / result.prefix_tokens if result.prefix_tokens else 0.0,
        "kv_pool_blocks": result.memory.kv_pool_blocks,
    }


def _limits(result: SimulationResult) -> dict[str, Any]:
    steps = result.steps
    lengths = steps["count"] * steps["duration_s"] + steps["slope_s"] * steps["count"] * (steps["count"] - 1) / 2
    busy = float(sum(result.seconds_by_resource.values()))
    blocks = result.pool_blocks
    # A run of steps is recorded with the blocks at its end; on the way there each decode opens one in block_size steps,
    # and one comes back for each behind a window.
    growing = 1 if blocks != result.memory.kv_pool_blocks else sum(k.window is None for k in result.memory.groups)
    opened = growing * (steps["count"] - 1) * steps["decodes"] / (2 * result.memory.block_size)
    used, average = steps["used_blocks"] / blocks, (steps["used_blocks"] - opened) / blocks
    duration = duration_s(result) * result.parameters.replicas
    return {
        "kv_usage": {
            "mean": float(average @ lengths / lengths.sum()) if len(used) else 0.0,
            "max": float(used.max()) if len(used) else 0.0,
        },
        "utilization": min(busy / duration, 1.0) if duration > 0 else 0.0,
        "bound_by": {name: s / busy if busy else 0.0 for name, s in result.seconds_by_resource.items()},
        "saturation": saturation(result),
    }


def saturation(result: SimulationResult) -> str | None:
    """ "above" if more arrives than is served (the wait for admission grows all the time), "at" if requests wait though
    the wait does not grow, else "below". None in a closed loop or a batch, where the load adapts or is given at once.
    """
    requests = result.requests
    arrival = requests["arrival_s"]
    admitted = ~np.isnan(requests["scheduled_s"])
    unserved = int(((requests["state"] == UNFINISHED) & ~admitted).sum())
    if result.workload.arrival_s is None or len(arrival) < 2 or arrival[-1] <= arrival[0]:
        return None
    if unserved:
        return "above"
    times, waits = arrival[admitted], (requests["scheduled_s"] - requests["queued_s"])[admitted]
    if len(times) < 8:
        return "below"
    early, late = _quarter(times, waits, 1), _quarter(times, waits, 3)
    if late[1] - early[1] > _GROWING_QUEUE * (late[0] - early[0]):
        return "above"
    # Whoever comes while a long step runs waits for it and, with asynchronous scheduling, for the next one too.
    steps = result.steps
    unavoidable = 2 * float(weighted_percentiles(steps["duration_s"], steps["count"], (99,))[0])
    return "at" if float((waits > unavoidable).mean()) > _WAITING_SHARE else "below"


def _quarter(times: Floats, waits: Floats, quarter: int) -> tuple[float, float]:
    size = len(times) // 4
    part = slice(quarter * size, (quarter + 1) * size)
    return float(times[part].mean()), float(waits[part].mean())
