"""The lab's claims, on the simulator's output with the experiments' own seeds."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from servecast.hardware.errors import ConfigError
from servecast.model.crossover import swap_is_cheaper
from servecast.model.preemption import PreemptionCosts
from servecast.sweeps.lab.experiment import experiment_names, load_experiment
from servecast.sweeps.lab.pages import PAGES
from servecast.sweeps.lab.pressure import MEASURED as MEASURED_PRESSURE
from servecast.sweeps.lab.rows import only, select
from servecast.sweeps.lab.runner import LabResult, run_experiment


@cache
def lab(name: str) -> LabResult:
    with TemporaryDirectory() as folder:
        return run_experiment(load_experiment(name), Path(folder))


def test_each_experiment_has_a_page() -> None:
    assert sorted(PAGES) == experiment_names()


def test_an_unknown_experiment_gets_a_suggestion() -> None:
    with pytest.raises(ConfigError, match="Did you mean 'starvation'"):
        load_experiment("starvaton")


def test_five_oversized_prompts_strand_46_of_60() -> None:
    row = only(lab("starvation").rows, **{"what cannot run": "waits"})
    assert (row["completed"], row["others stranded"], row["oversized stranded"]) == (9, 46, 5)


def test_nobody_starves_with_chunks_at_any_budget() -> None:
    rows = select(lab("starvation").rows, part="chunked prefill")
    assert [row["budget"] for row in rows] == [128, 256, 512, 1024, 2048]
    assert all(row["completed"] == 60 and row["stranded"] == 0 for row in rows)


def test_shortest_first_starves_long_prompts_only_when_short_ones_keep_coming() -> None:
    rows = lab("policies").rows
    for part, factor in (("drains", 1.1), ("keeps coming", 5.4)):
        fcfs, shortest = (only(rows, part=part, policy=policy) for policy in ("fcfs", "shortest_prompt"))
        assert shortest["TTFT p50 (ms)"] < 0.5 * fcfs["TTFT p50 (ms)"]
        assert shortest["long p99 (ms)"] < factor * fcfs["long p99 (ms)"] + 1000
    assert shortest["long p99 (ms)"] > 3 * fcfs["long p99 (ms)"]


def test_aging_bounds_the_wait() -> None:
    rows = lab("policies").rows
    fcfs, shortest, aging = (
        only(rows, part="keeps coming", policy=policy) for policy in ("fcfs", "shortest_prompt", "aging")
    )
    assert aging["worst wait (ms)"] < 0.5 * shortest["worst wait (ms)"]
    assert aging["TTFT p50 (ms)"] < fcfs["TTFT p50 (ms)"]


def test_thrashing_grows_as_the_pool_shrinks() -> None:
    rows = select(lab("thrashing").rows, backpressure="off")
    assert rows[0]["preemptions"] == 0
    assert all(large["recompute ratio"] <= small["recompute ratio"] for large, small in pairwise(rows))
    assert rows[-1]["output tok/s"] < 0.1 * rows[0]["output tok/s"]
    assert rows[-1]["thrash events"] > 0


def test_backpressure_lowers_the_ratio_of_recomputation() -> None:
    rows = lab("thrashing").rows
    for off, on in zip(select(rows, backpressure="off"), select(rows, backpressure="on"), strict=True):
        assert on["recompute ratio"] <= off["recompute ratio"]


def test_a_faster_link_favours_swap() -> None:
    rows = lab("preemption").rows
    swap = [only(rows, context=8192, PCIe=pcie, mode="swap")["duration (s)"] for pcie in (3, 4, 5)]
    recompute = only(rows, context=8192, PCIe=5, mode="recompute")["duration (s)"]
    assert swap == sorted(swap, reverse=True)
    assert swap[-1] < recompute < swap[0]


def test_slo_admission_keeps_goodput_in_overload() -> None:
    rows = lab("admission").rows
    for rate in (15, 20, 30):
        none, slo = (only(rows, **{"requests/s": rate, "admission": rule}) for rule in ("none", "slo"))
        assert slo["goodput (req/s)"] > 3 * none["goodput (req/s)"]
        assert slo["TTFT p99 (ms)"] < 0.5 * none["TTFT p99 (ms)"]
    assert only(rows, **{"requests/s": 9, "admission": "slo"})["rejected"] == 0


def test_a_larger_budget_helps_ttft_only_where_the_pool_has_room() -> None:
    rows = lab("budget").rows
    roomy, tight = select(rows, **{"KV blocks": 16000}), select(rows, **{"KV blocks": 1000})
    assert roomy[-1]["TTFT p50 (ms)"] < 0.2 * roomy[0]["TTFT p50 (ms)"]
    assert tight[-1]["TTFT p50 (ms)"] >= tight[0]["TTFT p50 (ms)"]
    assert roomy[-1]["ITL p99 (ms)"] > 4 * roomy[0]["ITL p99 (ms)"]


def test_cache_aware_order_finds_more_until_the_pool_holds_all() -> None:
    rows = lab("prefix").rows
    for blocks in (2500, 4000, 6000):
        fcfs, aware = (only(rows, **{"KV blocks": blocks, "policy": p}) for p in ("fcfs", "longest_prefix"))
        assert aware["hit rate"] > fcfs["hit rate"] + 0.25
        assert aware["TTFT p50 (ms)"] < fcfs["TTFT p50 (ms)"]
    assert only(rows, **{"KV blocks": 10000, "policy": "fcfs"})["hit rate"] > 0.85


def test_smaller_chunks_shorten_the_worst_gap_and_delay_the_long_prompt() -> None:
    rows = lab("chunking").rows
    gaps, first = [row["worst gap (ms)"] for row in rows], [row["32k TTFT p50 (ms)"] for row in rows]
    assert gaps == sorted(gaps, reverse=True)
    assert gaps[-1] < 0.05 * gaps[0]
    assert first == sorted(first)


def test_watermark_has_the_measured_shape() -> None:
    rows = lab("watermark").rows
    for row in rows:
        assert row["preemptions"] == pytest.approx(row["measured preemptions"], rel=0.15)
        assert row["output tok/s"] == pytest.approx(row["measured tok/s"], rel=0.08)
    none, two, five, ten = (row["output tok/s"] for row in rows)
    assert none < two < five > ten


def test_at_the_back_long_prompts_livelock_while_others_come_and_at_the_front_they_finish() -> None:
    rows = select(lab("reinsertion").rows, part="room for a chunk")
    front, back = select(rows, reinsert="front"), select(rows, reinsert="back")
    assert all(row["livelocked"] == 0 for row in front)
    assert all(row["done while others came"] == row["long prompts"] for row in front)
    assert all(row["done while others came"] == 0 for row in back)
    assert all(row["livelocked"] >= 0.9 * row["long prompts"] for row in back if row["requests"] > 250)


def test_at_the_back_the_wait_grows_as_long_as_others_come() -> None:
    """Twice the requests, about twice the wait; at the front an eightfold run changes it by less than twofold."""
    rows = select(lab("reinsertion").rows, part="room for a chunk")
    worst = {place: [row["long E2EL worst (s)"] for row in select(rows, reinsert=place)] for place in ("front", "back")}
    assert all(longer > 1.8 * shorter for shorter, longer in pairwise(worst["back"]))
    assert worst["front"][-1] < 2 * worst["front"][0]


def test_room_for_the_whole_prompt_prevents_the_livelock() -> None:
    rows = select(lab("reinsertion").rows, part="room for all of it")
    assert all(row["livelocked"] == 0 and row["done while others came"] == row["long prompts"] for row in rows)


def test_where_about_as_many_are_preempted_as_measured_they_are_as_seldom_preempted_again() -> None:
    row = only(lab("pressure").rows, **{"admitted on room for": "the whole prompt", "prompt mean": 1800})
    share, once, most = MEASURED_PRESSURE
    assert row["share (%)"] == pytest.approx(share, rel=0.25)
    assert row["once (% of these)"] == pytest.approx(once, abs=7)
    assert row["most preemptions"] <= most


def test_crossover_names_ranges() -> None:
    costs = PreemptionCosts(swap_s=lambda blocks: 2.0 * blocks, recompute_s=lambda tokens: 5 + (tokens / 16) ** 2 / 4)
    # 2b < 5 + b*b/4 holds up to 4 blocks and beyond: the parabola never dips below; shift it down to see two ranges
    dips = PreemptionCosts(costs.swap_s, lambda tokens: costs.recompute_s(tokens) - 3)
    assert swap_is_cheaper(costs, 16, 160) == [(16, 160)]
    assert swap_is_cheaper(dips, 16, 160) == [(16, 16), (112, 160)]
