"""A capacity as plain data, for JSON and for stores."""

from __future__ import annotations

import math
from typing import Any

from servecast.sweeps.capacity.capacity import Capacity, seed_half_width
from servecast.sweeps.capacity.judge import COOL_DOWN_SHARE, WARM_UP_SHARE, LimitValue
from servecast.sweeps.capacity.prober import Probe


def capacity_figures(capacity: Capacity) -> dict[str, Any]:
    """Every number behind the answer. Loads in `unit`; None stands for infinity and for "none"."""
    band = capacity.band
    return {
        "load": capacity.axis.name,
        "unit": capacity.axis.unit,
        "capacity": capacity.load,
        "interval": None if capacity.interval is None else list(capacity.interval),
        "above": capacity.above,
        "precise": capacity.precise,
        "slo": str(capacity.question.slo),
        "attainment": capacity.question.attainment,
        "per_cohort": capacity.question.per_cohort,
        "floor_hit": capacity.load is None,
        "ceiling_hit": capacity.above is None,
        "binding": None if capacity.binding is None else _limit(capacity.binding),
        "growing_above": capacity.missed is not None and capacity.missed.verdict.growing,
        "at": None if capacity.at is None else probe_figures(capacity.at),
        "missed": None if capacity.missed is None else probe_figures(capacity.missed),
        "requests": capacity.requests,
        "warm_up_share": WARM_UP_SHARE,
        "cool_down_share": COOL_DOWN_SHARE,
        "by_seed": list(capacity.by_seed),
        "seed_half_width": seed_half_width(capacity.by_seed),
        "model_error": None if band is None else {"tpot": band.tpot, "ttft": band.ttft, "basis": band.basis},
        "slow": capacity.slow,
        "fast": capacity.fast,
        "simulations": capacity.simulations,
        "probes": [probe_figures(probe) for probe in capacity.probes],
    }


def probe_figures(probe: Probe) -> dict[str, Any]:
    """One simulation: what it was judged by, and its latencies and throughputs unless it was stopped early."""
    verdict = probe.verdict
    return {
        "load": probe.load,
        "met": verdict.met,
        "stopped": verdict.stopped,
        "growing": verdict.growing,
        "requests": probe.requests,
        "judged": verdict.judged,
        "attained": verdict.attained,
        "in_system": probe.in_system,
        "regime": probe.regime,
        "limits": [_limit(limit) for limit in verdict.limits],
        "unservable": verdict.unservable,
        **probe.figures,
    }


def _limit(limit: LimitValue) -> dict[str, Any]:
    return {
        "limit": limit.name,
        "cohort": limit.cohort,
        "ratio": _finite(limit.ratio),
        "value_ms": _finite(limit.value_ms),
        "share": limit.share,
        "requests": limit.requests,
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
