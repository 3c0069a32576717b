"""Figures of a run against those computed the plain way."""

from __future__ import annotations

import numpy as np
import pytest

from builders import clock_engine, real_engine, run, trace, with_lengths
from servecast.model.arrivals import BatchArrivals, ClosedLoop, PoissonArrivals
from servecast.model.metrics import request_times, saturation, summarise, token_gaps_s
from servecast.model.slo import parse_slo
from servecast.model.statistics import describe_ms, peak_overlap, weighted_percentiles


def test_weighted_percentiles_equal_those_of_the_expanded_sample() -> None:
    rng = np.random.default_rng(1)
    values, counts = rng.normal(size=200), rng.integers(0, 30, 200).astype(float)
    expanded = np.repeat(values, counts.astype(int))
    expected = np.percentile(expanded, (50, 90, 95, 99))
    assert weighted_percentiles(values, counts, (50, 90, 95, 99)) == pytest.approx(expected, rel=1e-12)


def test_description_of_nothing_is_none() -> None:
    assert set(describe_ms(np.array([])).values()) == {None}


def test_peak_overlap_counts_an_end_before_a_start_of_the_same_instant() -> None:
    assert peak_overlap(np.array([0.0, 1.0, 1.5]), np.array([1.0, 3.0, 2.0])) == 2


def test_summary_of_three_requests() -> None:
    """Steps of 1 s. Request 0: first token 1, last 4. Request 1: 2 and 3. Request 2 has one token, at 2."""
    result = run(trace([(0.0, 4, 4), (0.5, 4, 2), (0.5, 4, 1)]))
    summary = summarise(result)
    assert summary["completed"] == 3
    assert summary["failed"] == 0
    assert summary["duration"] == 4.0
    assert summary["total_input_tokens"] == 12
    assert summary["total_output_tokens"] == 7
    assert summary["output_throughput"] == 7 / 4
    assert summary["mean_ttft_ms"] == pytest.approx((1 + 1.5 + 1.5) / 3 * 1e3)
    assert summary["mean_tpot_ms"] == pytest.approx(1e3)  # request 2 has no gap and does not count
    assert summary["mean_e2el_ms"] == pytest.approx((4 + 2.5 + 1.5) / 3 * 1e3)
    assert summary["p99_itl_ms"] == pytest.approx(1e3)
    assert summary["max_concurrent_requests"] == 3
    assert summary["queue_time"]["mean"] == pytest.approx(1e3 / 3)


@pytest.mark.parametrize("coast", [True, False])
def test_gaps_between_tokens_are_as_many_as_tokens_allow(coast: bool) -> None:
    lengths = np.random.default_rng(0).integers(1, 80, 300)
    result = run(with_lengths(PoissonArrivals(200.0), lengths, lengths), engine=real_engine(), blocks=300, coast=coast)
    gaps, counts = token_gaps_s(result)
    assert counts.sum() == (lengths - 1).sum()
    times = request_times(result)
    assert gaps @ counts == pytest.approx(np.nansum(times["tpot"] * (lengths - 1)), rel=1e-9)


def test_itl_of_a_coasted_run_equals_that_of_single_steps() -> None:
    lengths = np.random.default_rng(0).integers(1, 400, 100)
    both = [
        summarise(run(with_lengths(PoissonArrivals(50.0), lengths, lengths), engine=real_engine(), coast=coast))
        for coast in (True, False)
    ]
    for key in ("mean_itl_ms", "p50_itl_ms", "p90_itl_ms", "p99_itl_ms", "std_itl_ms"):
        assert both[0][key] == pytest.approx(both[1][key], rel=1e-3), key


def test_goodput_counts_requests_within_every_limit() -> None:
    from dataclasses import replace

    result = run(trace([(0.0, 4, 4), (0.5, 4, 2), (0.5, 4, 1)]))
    strict = replace(result.parameters, slo=parse_slo("ttft:p50<=1.2s tpot:2000"))
    summary = summarise(replace(result, parameters=strict))
    assert summary["request_goodput"] == 1 / 4
    assert [verdict["met"] for verdict in summary["slo"]] == [False, True]
    assert summary["slo"][0]["value_ms"] == pytest.approx(1500)


def test_rejected_requests_are_counted_by_reason() -> None:
    summary = summarise(run(trace([(0.0, 4, 4), (0.0, 9000, 4), (0.0, 8000, 190)]), blocks=50))
    assert summary["rejected"] == {"over_max_model_len": 1, "over_kv_pool": 1}
    assert summary["completed"] == 1
    assert summary["failed"] == 2


def test_starved_requests_are_unfinished() -> None:
    summary = summarise(run(trace([(0.0, 9000, 4), (0.0, 4, 4)]), on_unschedulable="wait"))
    assert (summary["completed"], summary["unfinished"]) == (0, 2)
    assert summary["duration"] == 0.0
    assert summary["mean_ttft_ms"] is None


@pytest.mark.parametrize(("rate", "expected"), [(0.3, "below"), (1.3, "above")])
def test_saturation(rate: float, expected: str) -> None:
    """Four requests at a time, four steps of 1 s each: one request a second is served."""
    lengths = [4] * 1500
    result = run(with_lengths(PoissonArrivals(rate), lengths, lengths), engine=clock_engine(), max_num_seqs=4)
    assert saturation(result) == expected


def test_closed_loops_and_batches_have_no_saturation() -> None:
    for arrivals in (BatchArrivals(), ClosedLoop(2)):
        assert saturation(run(with_lengths(arrivals, [4] * 10, [4] * 10))) is None


def test_shares_of_time_add_up() -> None:
    lengths = [64] * 50
    summary = summarise(run(with_lengths(PoissonArrivals(20.0), lengths, lengths), engine=real_engine()))
    assert sum(summary["bound_by"].values()) == pytest.approx(1.0)
    assert 0 < summary["utilization"] <= 1
    assert 0 < summary["kv_usage"]["mean"] <= summary["kv_usage"]["max"] <= 1
