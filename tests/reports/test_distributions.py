"""Quantiles of a run's latencies."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest

from builders import clock_engine, run, trace
from servecast.model.cohorts import CohortParameters
from servecast.model.metrics import summarise
from servecast.reports.distributions import ALL, distributions_frame


def test_quantiles_are_those_of_the_summary_for_all_and_by_cohort() -> None:
    result = run(trace([(0.3 * i, 20 + 20 * (i % 3), 5 + i) for i in range(30)]), engine=clock_engine(0.1))
    cohorts = CohortParameters("prompt_tokens", edges=(30,))
    result = replace(result, parameters=replace(result.parameters, cohorts=cohorts))
    frame, summary = distributions_frame(result), summarise(result)
    assert list(frame["cohort"].unique()) == [ALL, "prompt 1-30", "prompt >30"]
    for cohort, figures in ((ALL, summary), *summary["cohorts"].items()):
        for metric in ("ttft", "tpot", "e2el", *(["itl"] if cohort == ALL else [])):
            for percentile in (50, 90, 99):
                assert quantile(frame, cohort, metric, percentile) == pytest.approx(
                    figures[f"p{percentile}_{metric}_ms"]
                )
    assert quantile(frame, ALL, "queue", 99) == pytest.approx(summary["queue_time"]["p99"])


def quantile(frame: pd.DataFrame, cohort: str, metric: str, percentile: float) -> float:
    chosen = (frame["cohort"] == cohort) & (frame["metric"] == metric) & (frame["percentile"] == percentile)
    return float(frame.loc[chosen, "value_ms"].item())


def test_without_answers_there_are_rows_without_values() -> None:
    frame = distributions_frame(run(trace([(0.0, 9000, 3)]), engine=clock_engine()))
    assert set(frame["metric"]) == {"ttft", "tpot", "e2el", "queue"}
    assert frame["value_ms"].isna().all()
