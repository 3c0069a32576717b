"""The capacity search against a dense scan of loads, on five scenarios that differ in model, GPU, traffic and limits.

    python benchmarks/capacity_scan.py [--jobs 2] [--only WORDS]

The scan simulates the same traffic as the search at 61 loads around the answer, 0.5 % apart, each to its end. Its
answer is the load that tells those that meet the SLO from those that miss it with the fewest exceptions.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from servecast.configs.build import build_simulation
from servecast.configs.load import scenario_from
from servecast.model.simulation import SimulationParameters
from servecast.model.slo import parse_slo
from servecast.sweeps.capacity.capacity import Capacity, CapacityOptions, find_capacity
from servecast.sweeps.capacity.prober import Prober

STEP, EACH_WAY = 0.005, 30
ATTAINMENT = 0.9  # of limits on single requests

SCENARIOS: dict[str, tuple[dict[str, Any], str]] = {
    "8B on H100, chat": (
        {"model": "llama-3.1-8b", "gpu": "h100-sxm", "profile": "azure-conv-2023"},
        "ttft:p99<=500ms tpot:p95<=50ms",
    ),
    "70B FP8 on 4 H100, chat": (
        {"model": "llama-3.1-70b", "gpu": "h100-sxm", "tp": 4, "dtype": "fp8", "profile": "azure-conv-2023"},
        "ttft:p99<=2s tpot:p95<=60ms",
    ),
    "70B FP8 on H200, TTFT alone": (
        {"model": "llama-3.1-70b", "gpu": "h200-sxm", "tp": 2, "dtype": "fp8", "profile": "8k1k"},
        "ttft:p90<=5s",
    ),
    "8B on L40S, code, E2EL": (
        {"model": "llama-3.1-8b", "gpu": "l40s", "dtype": "fp8", "profile": "azure-code-2023"},
        "e2el:p95<=3s",
    ),
    "8B on A100, bursts, 90 % of single requests": (
        {"model": "llama-3.1-8b", "gpu": "a100-80gb-sxm", "profile": "sharegpt", "cv": 2},
        "ttft:1000 tpot:40",
    ),
}


def parameters_of(settings: dict[str, Any]) -> SimulationParameters:
    scenario = {
        "model": settings["model"],
        "gpu": settings["gpu"],
        "replica": {
            "tensor_parallel_size": settings.get("tp", 1),
            "dtype": settings.get("dtype", "bfloat16"),
            "max_model_len": 16384,
        },
        "workload": {
            "arrivals": {"process": "gamma", "request_rate": 1, "cv": settings.get("cv", 1)},
            "lengths": {"profile": settings["profile"]},
        },
    }
    return build_simulation(scenario_from(scenario))


def scanned(parameters: SimulationParameters, capacity: Capacity, load: float) -> bool:
    prober = Prober(parameters, capacity.axis, capacity.question, capacity.requests)
    probe, _ = prober.run(load, to_the_end=True)
    return probe.verdict.met


def crossing(loads: np.ndarray[Any, Any], met: np.ndarray[Any, Any]) -> float:
    """The load up to which the most are `met` and above which the fewest are."""
    errors = [int((~met[: i + 1]).sum() + met[i + 1 :].sum()) for i in range(len(loads))]
    return float(loads[int(np.argmin(errors))])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="scenarios whose name holds these words")
    arguments = parser.parse_args()
    print("| scenario | search | simulations | scan | difference | interval by seeds |\n|---|---|---|---|---|---|")
    for name, (settings, slo) in SCENARIOS.items():
        if arguments.only not in name:
            continue
        parameters = parameters_of(settings)
        options = CapacityOptions(seeds=3, band=False)
        capacity = find_capacity(parameters, parse_slo(slo), options, attainment=ATTAINMENT)
        assert capacity.load is not None
        # One more than the probes: the run just above is repeated to its end.
        simulations = len(capacity.probes) + 1
        loads = capacity.load * np.exp(STEP * np.arange(-EACH_WAY, EACH_WAY + 1))
        tried = Parallel(arguments.jobs)(delayed(scanned)(replace(parameters), capacity, float(load)) for load in loads)
        scan = crossing(loads, np.asarray(tried))
        low, high = capacity.interval or (0.0, 0.0)
        print(
            f"| {name} | {capacity.load:.3f} | {simulations} | {scan:.3f} | {capacity.load / scan - 1:+.1%} "
            f"| {low:.3f} to {high:.3f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
