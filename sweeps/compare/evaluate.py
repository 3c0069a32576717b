"""Everything about one candidate that takes simulations, as plain data. Runs in a worker process; knows no prices."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from servecast.configs.build import build_simulation
from servecast.configs.load import scenario_from
from servecast.hardware.prices import load_prices
from servecast.model.caveats import caveats
from servecast.model.cost import energy, gpu_count, prefill_share
from servecast.model.fit_advice import FitQuestion, changes_that_fit
from servecast.model.metrics import summarise
from servecast.model.simulation import SimulationParameters, plan_replica
from servecast.model.slo import Slo
from servecast.sweeps.capacity.capacity import Capacity, CapacityOptions, find_capacity
from servecast.sweeps.capacity.figures import capacity_figures, probe_figures
from servecast.sweeps.capacity.load import load_axis
from servecast.sweeps.compare.fleet import Fleet, size_fleet
from servecast.sweeps.compare.variants import best_knobs, sensitivities

FITS, DOES_NOT_FIT, UNREACHABLE = "ok", "does not fit", "out of reach"

# Of the fleet's run, by their names in the summary.
_FLEET_FIGURES = (
    "request_throughput",
    "output_throughput",
    "total_token_throughput",
    "mean_ttft_ms",
    "p50_ttft_ms",
    "p95_ttft_ms",
    "p99_ttft_ms",
    "mean_tpot_ms",
    "p50_tpot_ms",
    "p95_tpot_ms",
    "p99_tpot_ms",
    "p99_e2el_ms",
    "utilization",
    "kv_usage",
    "roofline",
    "bound_by",
    "preemptions",
    "rejected",
    "total_input_tokens",
    "total_output_tokens",
    "completed",
)


def evaluate(content: Mapping[str, Any]) -> dict[str, Any]:
    """The candidate in `content`: `scenario` (one replica), `target` (None: the workload's own load), `headroom`,
    `knobs` (setting -> values, or None), `precision`, `seeds`, `attainment`, `sensitivity`.

    Raises ConfigError for a scenario that cannot be simulated.
    """
    parameters = build_simulation(scenario_from(content["scenario"]))
    assert parameters.slo is not None  # a comparison has one
    plan = plan_replica(parameters)
    found: dict[str, Any] = {
        "status": DOES_NOT_FIT,
        "gpus_per_replica": gpu_count(parameters),
        "weights_gib": plan.weights_gib,
        "kv_gib": plan.kv_gib,
        "kv_pool_tokens": plan.kv_pool_tokens,
        "short_gib": plan.short_gib,
        "calibration": parameters.engine.kernels_for(parameters.gpu.key).calibration,
        "tdp_w": parameters.gpu.tdp_w,
        "notes": [*parameters.workload.notes, *caveats(parameters)],
    }
    if not plan.fits:
        return found | {"fits_with": _advice(parameters)}
    return found | _carried(parameters, parameters.slo, content)


def _advice(parameters: SimulationParameters) -> list[str]:
    limits = parameters.scheduler.max_num_batched_tokens, parameters.scheduler.max_num_seqs
    question = FitQuestion(
        parameters.architecture, parameters.gpu, parameters.engine.memory, parameters.layout, *limits
    )
    return [str(change) for change in changes_that_fit(question)]


def _carried(parameters: SimulationParameters, slo: Slo, content: Mapping[str, Any]) -> dict[str, Any]:
    options = CapacityOptions(precision=content["precision"], seeds=content["seeds"])
    attainment, guess = content["attainment"], None
    found: dict[str, Any] = {"knobs": None}
    if content["knobs"]:
        parameters, trials, guess = best_knobs(parameters, slo, content["knobs"], options, attainment)
        found["knobs"] = [asdict(trial) for trial in trials]
    scheduler = parameters.scheduler
    found["settings"] = {
        "max_num_batched_tokens": scheduler.max_num_batched_tokens,
        "max_num_seqs": scheduler.max_num_seqs,
    }
    capacity = find_capacity(parameters, slo, options, attainment=attainment, guess=guess)
    found["capacity"] = capacity_figures(capacity)
    if capacity.load is None:
        return found | {"status": UNREACHABLE}
    axis = load_axis(parameters)
    target = (content["target"] or axis.nominal) * (1 + content["headroom"])
    fleet = size_fleet(parameters, capacity, target)
    found |= {"status": FITS, "fleet": _fleet(capacity, fleet, target, content["headroom"])}
    if content["sensitivity"]:
        found["sensitivity"] = sensitivities(parameters, slo, capacity, options, attainment)
    return found


def _fleet(capacity: Capacity, fleet: Fleet, target: float, headroom: float) -> dict[str, Any]:
    assert capacity.load is not None
    assert capacity.interval is not None
    low, high = capacity.interval
    found: dict[str, Any] = {
        "target": target,
        "served_rate": None,
        "replicas": fleet.replicas,
        "needed": fleet.needed,
        # Replicas as real numbers, if one carries as much as the interval of its capacity says.
        "needed_low": fleet.needed * capacity.load / high,
        "needed_high": fleet.needed * capacity.load / low if low > 0 else None,
        "verified": fleet.verified,
        "simulations": fleet.simulations,
        "at": None if fleet.at is None else probe_figures(fleet.at),
        "below": None if fleet.below is None else probe_figures(fleet.below),
    }
    if fleet.result is None:
        return found
    summary = summarise(fleet.result)
    found["run"] = {name: summary[name] for name in _FLEET_FIGURES}
    # What is paid for carries the target without headroom; clients of a closed loop decide their rate themselves.
    rate = summary["request_throughput"] if capacity.axis.whole else target
    found["served_rate"] = rate / (1 + headroom)
    found["prompt_share"] = prefill_share(fleet.result)
    found["energy"] = energy(fleet.result, summary["utilization"], load_prices().power)
    return found
