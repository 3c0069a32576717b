"""A comparison from its file to its figures: tasks for the workers, what they found, cost, ranking."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from servecast.configs.comparison import Candidate, Comparison, own_prices
from servecast.configs.workloads import build_workload
from servecast.sweeps.compare.costs import BASES, Pricing, fleet_costs, pricing_of
from servecast.sweeps.compare.evaluate import DOES_NOT_FIT, FITS, UNREACHABLE
from servecast.sweeps.compare.ranking import (
    REFUSED,
    between,
    limit_word,
    rank,
    recommendation,
    sensitivity_rows,
    size_interval,
    unreachable,
)

Found = Mapping[str, Any]

# Changes with what `evaluate` does or gives, so that older stored results are not taken for answers.
EVALUATION_VERSION = 2


def task_content(comparison: Comparison, candidate: Candidate) -> dict[str, Any]:
    """What `evaluate` needs of a candidate: plain data, all that its result depends on besides the program."""
    knobs = comparison.knobs
    search = comparison.search
    return {
        "evaluation": EVALUATION_VERSION,
        "scenario": candidate.scenario.portable(),
        "target": comparison.target.request_rate,
        "headroom": comparison.target.headroom,
        "knobs": None if knobs is None else {key: list(values) for key, values in knobs if values is not None},
        "precision": search.precision,
        "seeds": search.seeds,
        "attainment": search.attainment,
        "sensitivity": search.sensitivity,
    }


def figures_of(
    comparison: Comparison,
    candidates: Sequence[Candidate],
    outcomes: Sequence[tuple[Found | None, str | None]],
    today: datetime.date,
) -> dict[str, Any]:
    """All figures of a comparison as plain data; docs/compare.md explains them. outcomes: for each candidate what
    `evaluate` found, or the message of its error.
    """
    pricing = pricing_of(comparison)
    spare = comparison.target.spare_replicas
    rows = [
        _row(candidate, found, message, pricing, spare, today)
        for candidate, (found, message) in zip(candidates, outcomes, strict=True)
    ]
    ranked = rank(rows)
    carried = [row for row in ranked if row["status"] == FITS]
    return {
        "name": comparison.name,
        "date": today.isoformat(),
        "recommendation": recommendation(ranked),
        "winner": carried[0]["label"] if carried and carried[0]["usd_per_hour"] is not None else None,
        "ties": [row["label"] for row in carried if row["tie"]],
        "question": _question(comparison, candidates, carried),
        "candidates": ranked,
        "sensitivity": sensitivity_rows(ranked),
        "prices": _prices(ranked),
        "notes": _price_notes(comparison, candidates),
    }


def _question(
    comparison: Comparison, candidates: Sequence[Candidate], carried: Sequence[Mapping[str, Any]]
) -> dict[str, Any]:
    scenario = candidates[0].scenario
    target = comparison.target
    effective = scenario.effective()
    return {
        "models": list(dict.fromkeys(candidate.scenario.model for candidate in candidates)),
        "slo": scenario.slo,
        "attainment": comparison.search.attainment,
        "target": carried[0]["target"] if carried else target.request_rate,
        "unit": carried[0]["unit"] if carried else "req/s",
        "headroom": target.headroom,
        "spare_replicas": target.spare_replicas,
        "basis": comparison.cost.basis,
        "workload": effective["workload"],
        "workload_name": build_workload(scenario).name,
        "seeds": comparison.search.seeds,
        "precision": comparison.search.precision,
    }


def _row(
    candidate: Candidate, found: Found | None, message: str | None, pricing: Pricing, spare: int, today: datetime.date
) -> dict[str, Any]:
    scenario = candidate.scenario
    row: dict[str, Any] = {
        "label": candidate.label,
        "model": scenario.model,
        "gpu": candidate.gpu_key,
        "engine": scenario.engine,
        "dtype": scenario.replica.dtype,
        "tensor_parallel_size": scenario.replica.tensor_parallel_size,
        "pipeline_parallel_size": scenario.replica.pipeline_parallel_size,
    }
    if found is None:
        return row | {"status": REFUSED, "reason": message}
    row |= {key: found[key] for key in ("status", "calibration", "gpus_per_replica", "kv_gib", "short_gib", "notes")}
    if found["status"] == DOES_NOT_FIT:
        advice = f"; fits with {' or '.join(found['fits_with'])}" if found["fits_with"] else ""
        return row | {"reason": f"does not fit: {found['short_gib']:.2f} GiB short on each GPU{advice}"}
    row |= {"settings": found["settings"], "knobs": found["knobs"], "search": found["capacity"]}
    if found["status"] == UNREACHABLE:
        return row | {"reason": unreachable(found["capacity"])}
    return row | _size(found, spare, pricing) | _money(found, candidate.gpu_key, pricing, spare, today)


def _size(found: Found, spare: int, pricing: Pricing) -> dict[str, Any]:
    fleet, capacity = found["fleet"], found["capacity"]
    low, high = size_interval(fleet, spare)
    replicas, each = fleet["replicas"] + spare, found["gpus_per_replica"]
    run = fleet.get("run")
    figures: dict[str, Any] = {
        "capacity": capacity["capacity"],
        "capacity_low": capacity["interval"][0],
        "capacity_high": capacity["interval"][1],
        "unit": capacity["unit"],
        "target": fleet["target"],
        "replicas": replicas,
        "replicas_low": low,
        "replicas_high": high,
        "replicas_needed": fleet["needed"],
        "spare_replicas": spare,
        "verified": fleet["verified"],
        "gpus": replicas * each,
        "gpus_low": low * each,
        "gpus_high": None if high is None else high * each,
        "gpus_text": between(low * each, None if high is None else high * each, replicas * each),
        "limit": limit_word(capacity),
        "sensitivity": found.get("sensitivity"),
        "fleet": {key: fleet[key] for key in ("at", "below")},
        "attained": None if fleet["at"] is None else fleet["at"]["attained"],
        "attained_below": None if fleet["below"] is None else fleet["below"]["attained"],
    }
    if run is None:
        return figures
    gpus, busy, tdp_w = fleet["replicas"] * each, run["utilization"], found["tdp_w"]
    return figures | {
        "run": run,
        "utilization": run["utilization"],
        "bound_by": run["bound_by"],
        "bound": max(run["bound_by"], key=run["bound_by"].get),
        "output_tokens_per_s_per_gpu": run["output_throughput"] / gpus,
        "tokens_per_s_per_user": 1e3 / run["p50_tpot_ms"] if run["p50_tpot_ms"] else None,
        # Spare replicas share the load, so all are taken to be as busy as those that were simulated.
        "gpu_watts": replicas * each * pricing.power.gpu_watts(tdp_w, busy),
        "wall_watts": replicas * each * pricing.power.wall_watts(tdp_w, busy),
        "joules_per_output_token": fleet["energy"]["joules_per_output_token"],
        "joules_per_token": fleet["energy"]["joules_per_token"],
    }


def _money(found: Found, gpu_key: str, pricing: Pricing, spare: int, today: datetime.date) -> dict[str, Any]:
    fleet, each = found["fleet"], found["gpus_per_replica"]
    low, high = size_interval(fleet, spare)
    nothing = dict.fromkeys(("usd_per_hour", "usd_per_hour_low", "usd_per_hour_high"))
    if "run" not in fleet:
        return {"costs": dict.fromkeys(BASES), **nothing}
    gpus = (fleet["replicas"] + spare) * each
    costs = {basis: fleet_costs(pricing, basis, gpu_key, gpus, found, today) for basis in BASES}
    ranked_by = costs[pricing.basis]
    if ranked_by is None:
        return {"costs": costs, **nothing}
    one = ranked_by["usd_per_gpu_hour"] * each
    return {
        "costs": costs,
        "usd_per_hour": ranked_by["usd_per_hour"],
        "usd_per_hour_low": one * low,
        "usd_per_hour_high": None if high is None else one * high,
    }


def _price_notes(comparison: Comparison, candidates: Sequence[Candidate]) -> list[str]:
    """A sentence for each price of the file that no candidate asks for."""
    used = {candidate.gpu_key for candidate in candidates}
    return [
        f"prices has {gpu}, which is no candidate: it counts nowhere."
        for gpu in own_prices(comparison)
        if gpu not in used
    ]


def _prices(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Every price that counts, once, for the reader."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        for basis, cost in (row.get("costs") or {}).items():
            if cost is not None:
                found.setdefault((row["gpu"], basis), {"gpu": row["gpu"], **cost["price"]})
    return list(found.values())
