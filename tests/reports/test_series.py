"""A run over time, against the sums of its steps."""

from __future__ import annotations

import numpy as np
import pytest

from builders import clock_engine, run, trace
from servecast.model.metrics import summarise
from servecast.model.simulation import SimulationResult
from servecast.reports.series import series_frame


@pytest.fixture(params=[1, 2], ids=["1 replica", "2 replicas"])
def crowded(request: pytest.FixtureRequest) -> SimulationResult:
    """Thirty requests over a pool that is too small for them."""
    workload = trace([(0.4 * i, 40, 60) for i in range(30)])
    return run(workload, engine=clock_engine(0.1), blocks=20, replicas=request.param)


@pytest.mark.parametrize("bins", [1, 7, 1000])
def test_nothing_is_lost_in_binning(crowded: SimulationResult, bins: int) -> None:
    frame, steps, summary = series_frame(crowded, bins), crowded.steps, summarise(crowded)
    width = frame["width_s"]
    assert (frame["prefill_tokens_per_s"] * width).sum() == pytest.approx(steps["prefill_tokens"].sum())
    assert (frame["decode_tokens_per_s"] * width).sum() == pytest.approx((steps["decodes"] * steps["count"]).sum())
    assert frame["preemptions"].sum() == summary["preemptions"] > 0
    assert frame["kv_usage_max"].max() <= 1 + 1e-9
    assert (frame["waiting_max"] >= frame["waiting"] - 1e-9).all()
    assert (frame["prefill_step_share"] + frame["decode_step_share"]).max() <= 1 + 1e-9


def test_one_request_by_hand() -> None:
    # A prefill of 1 s, then 9 decodes of 1 s, in bins of 2 s.
    frame = series_frame(run(trace([(0.0, 64, 10)]), engine=clock_engine(1.0), blocks=10, coast=False), 5)
    assert frame["time_s"].tolist() == pytest.approx([0, 2, 4, 6, 8])
    assert frame["prefill_tokens_per_s"].tolist() == pytest.approx([32, 0, 0, 0, 0])
    assert frame["decode_tokens_per_s"].tolist() == pytest.approx([0.5, 1, 1, 1, 1])
    assert frame["prefill_step_share"].tolist() == pytest.approx([0.5, 0, 0, 0, 0])
    assert frame["running"].tolist() == pytest.approx([1, 1, 1, 1, 1])


def test_the_mean_usage_is_that_of_the_summary(crowded: SimulationResult) -> None:
    frame, summary = series_frame(crowded), summarise(crowded)
    busy = (frame["prefill_step_share"] + frame["decode_step_share"]).mean()
    assert frame["kv_usage"].mean() / busy == pytest.approx(summary["kv_usage"]["mean"], rel=1e-6)


def test_a_run_without_requests_is_a_row_of_nothing() -> None:
    frame = series_frame(run(trace([(0.0, 9000, 3)]), engine=clock_engine()))
    assert len(frame) == 1
    assert np.isfinite(frame.to_numpy()).all()
