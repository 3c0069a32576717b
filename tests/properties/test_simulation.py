"""What must hold in every simulation: coasting changes nothing, nothing is lost, clocks never run back."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from builders import a_gpu, real_engine, run, tiny_model, with_lengths
from servecast.model.admission import AdmissionParameters
from servecast.model.arrivals import Arrivals, BatchArrivals, ClosedLoop, ConstantArrivals, PoissonArrivals
from servecast.model.policies import PolicyParameters
from servecast.model.records import COMPLETED, REJECTED, UNFINISHED
from servecast.model.simulation import SimulationResult

ARRIVALS = st.one_of(
    st.builds(PoissonArrivals, st.sampled_from([5.0, 100.0, 2000.0])),
    st.builds(ConstantArrivals, st.sampled_from([50.0, 999.0])),
    st.just(BatchArrivals()),
    st.builds(ClosedLoop, st.integers(1, 12), st.sampled_from([0.0, 0.01])),
)
LENGTHS = st.lists(st.tuples(st.integers(1, 120), st.integers(1, 60)), min_size=1, max_size=40)
SCHEDULERS = st.fixed_dictionaries(
    {
        "max_num_batched_tokens": st.sampled_from([16, 64, 8192]),
        "max_num_seqs": st.sampled_from([1, 3, 16]),
        "enable_chunked_prefill": st.booleans(),
        "enable_prefix_caching": st.booleans(),
        "kind": st.sampled_from(["vllm", "vllm", "vllm", "textbook", "orca", "static"]),
        "policy": st.sampled_from(
            [
                PolicyParameters(name)
                for name in ("fcfs", "fcfs", "shortest_prompt", "aging", "priority", "edf", "longest_prefix")
            ]
        ),
        "preemption": st.sampled_from(["recompute", "swap", "auto"]),
        "victim": st.sampled_from(["last_admitted", "last_admitted", "lowest_priority", "most_blocks"]),
        "reinsert": st.sampled_from(["front", "front", "back"]),
        "swap_overlap": st.booleans(),
        "long_prefill_token_threshold": st.sampled_from([0, 0, 24]),
        "max_num_partial_prefills": st.sampled_from([1, 1, 3]),
        "backpressure": st.booleans(),
        "admission": st.sampled_from(
            [AdmissionParameters(), AdmissionParameters("max_queue", 5), AdmissionParameters("slo", ttft_s=0.02)]
        ),
        "swap_space_gib": st.sampled_from([0.0, 0.0005, 1.0]),
        "watermark": st.sampled_from([0.0, 0.2]),
        "scheduler_reserve_full_isl": st.booleans(),
        "on_unschedulable": st.sampled_from(["reject", "wait"]),
    }
)
LAYOUTS = st.fixed_dictionaries(
    {
        "blocks": st.integers(8, 60),
        "block_size": st.sampled_from([4, 16]),
        "replicas": st.sampled_from([1, 1, 2]),
        "stages": st.sampled_from([1, 1, 2]),
    }
)
IDENTITIES = st.sampled_from(
    [
        {},
        {"distinct_prompts": 3},
        {"shared_prefix_tokens": 20},
        {"distinct_prompts": 3, "shared_prefix_tokens": 20, "priorities": {0: 1.0, 5: 2.0}},
    ]
)
SCENARIOS = st.fixed_dictionaries(
    {
        "arrivals": ARRIVALS,
        "lengths": LENGTHS,
        "scheduler": SCHEDULERS,
        "layout": LAYOUTS,
        "identity": IDENTITIES,
        "asynchronous": st.booleans(),
        "windows": st.sampled_from([(None, None), (None, 24), (16, 16), (None, 8)]),
    }
)
# Decodes give blocks back from behind their windows while the third prompt waits for just those.
BLOCKS_COME_BACK = {
    "arrivals": PoissonArrivals(2000.0),
    "lengths": [(86, 3), (87, 2), (81, 1)],
    "scheduler": {"enable_chunked_prefill": False, "max_num_seqs": 3, "watermark": 0.2},
    "layout": {"blocks": 32, "block_size": 16},
    "identity": {},
    "asynchronous": False,
    "windows": (None, 8),
}


def simulate(scenario: dict[str, Any], *, coast: bool) -> SimulationResult:
    arrivals: Arrivals = scenario["arrivals"]
    prompts, outputs = zip(*scenario["lengths"], strict=True)
    return run(
        with_lengths(arrivals, prompts, outputs, **scenario["identity"]),
        engine=real_engine(async_scheduling=scenario["asynchronous"]),
        architecture=tiny_model(scenario["windows"]),
        # A slow link makes swaps take as long as steps.
        gpu=a_gpu(pcie_bytes_per_s=1e9),
        coast=coast,
        **scenario["layout"],
        **scenario["scheduler"],
    )


@settings(max_examples=150, deadline=None)
@given(SCENARIOS)
@example(BLOCKS_COME_BACK)
def test_coasting_equals_stepping_one_by_one(scenario: dict[str, Any]) -> None:
    jumped, stepped = simulate(scenario, coast=True), simulate(scenario, coast=False)
    for name in ("scheduled_s", "first_token_s", "finish_s"):
        np.testing.assert_allclose(jumped.requests[name], stepped.requests[name], rtol=0, atol=1e-9)
    for name in ("state", "replica", "preemptions", "recomputed_tokens"):
        np.testing.assert_array_equal(jumped.requests[name], stepped.requests[name])
    # Two replicas that do the same end together but for rounding, in either order.
    in_order = jumped.requests["finish_s"][np.argsort(stepped.requests["finish_s"], kind="stable")]
    assert not (np.diff(in_order) < -1e-9).any()
    assert jumped.steps["count"].sum() == len(stepped.steps["count"])
    assert jumped.swap_bytes == stepped.swap_bytes
    assert jumped.prefix_hit_tokens == stepped.prefix_hit_tokens
    np.testing.assert_allclose(jumped.resumed_gaps_s, stepped.resumed_gaps_s, atol=1e-9)
    for resource, seconds in stepped.seconds_by_resource.items():
        assert abs(jumped.seconds_by_resource[resource] - seconds) < 1e-9, resource


@settings(max_examples=100, deadline=None)
@given(SCENARIOS)
def test_nothing_is_lost(scenario: dict[str, Any]) -> None:
    result = simulate(scenario, coast=True)
    requests, steps, workload = result.requests, result.steps, result.workload
    done = requests["state"] == COMPLETED
    assert set(np.unique(requests["state"])) <= {UNFINISHED, COMPLETED, REJECTED}
    assert set(result.reasons) == set(np.flatnonzero(requests["state"] == REJECTED))
    if scenario["scheduler"]["on_unschedulable"] == "reject":
        assert not (requests["state"] == UNFINISHED).any()
    # Every token is computed once (prompt + outputs without the last), but for what preemptions threw away.
    computed = steps["prefill_tokens"].sum() + (steps["decodes"] * steps["count"]).sum()
    wanted = (workload.prompt_tokens + workload.output_tokens - 1)[done].sum() + requests["recomputed_tokens"].sum()
    if done.sum() + (requests["state"] == REJECTED).sum() == len(done):
        # Of the prompts, the prefix cache may have had any part.
        cached = workload.prompt_tokens[done].sum() if scenario["scheduler"]["enable_prefix_caching"] else 0
        assert wanted - cached <= computed <= wanted
    assert (steps["used_blocks"] <= result.pool_blocks).all()


@settings(max_examples=100, deadline=None)
@given(SCENARIOS)
def test_clocks_never_run_back(scenario: dict[str, Any]) -> None:
    result = simulate(scenario, coast=True)
    requests, steps = result.requests, result.steps
    done = requests["state"] == COMPLETED
    order = ("arrival_s", "queued_s", "scheduled_s", "first_token_s", "finish_s")
    for before, after in pairwise(order):
        assert (requests[before][done] <= requests[after][done] + 1e-12).all(), (before, after)
    assert (steps["duration_s"] > 0).all()
    assert (steps["count"] >= 1).all()
    for replica in np.unique(steps["replica"]):
        starts = steps["start_s"][steps["replica"] == replica]
        assert (np.diff(starts) >= 0).all()
