"""Distributions of the latencies as quantiles: what their figures are drawn from, of one size however many requests."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from servecast.model.cohorts import cohorts
from servecast.model.metrics import request_times, token_gaps_s
from servecast.model.simulation import SimulationResult
from servecast.model.statistics import weighted_percentiles

ALL = "all"

# Percentiles: every half, and the far ends.
LEVELS = tuple(
    sorted({*np.arange(0, 100.25, 0.5).tolist(), 0.1, 99.1, 99.2, 99.3, 99.4, 99.6, 99.7, 99.8, 99.9, 99.99})
)


def distributions_frame(result: SimulationResult) -> pd.DataFrame:
    """cohort ("all" first), metric (ttft, tpot, e2el, queue, itl), percentile, value_ms.

    Of completed requests; the wait (`queue`) of all that were admitted. Gaps between tokens (itl) are not told apart by
    request, so they are there for "all" only.
    """
    frames = [_frame(cohort, metric, values) for cohort, metric, values in _samples(result)]
    gaps, counts = token_gaps_s(result)
    if counts.sum():
        frames.insert(3, _frame_of(ALL, "itl", weighted_percentiles(gaps * 1e3, counts, LEVELS)))
    return pd.concat(frames, ignore_index=True)


def _samples(result: SimulationResult) -> Iterator[tuple[str, str, NDArray[np.float64]]]:
    times, requests = request_times(result), result.requests
    metrics = {**times, "queue": requests["scheduled_s"] - requests["queued_s"]}
    chosen = [(ALL, np.ones(len(result.workload), dtype=np.bool_))]
    if result.parameters.cohorts is not None:
        chosen += cohorts(result.parameters.cohorts, result.workload)
    for cohort, mask in chosen:
        for metric, seconds in metrics.items():
            values = seconds[mask]
            yield cohort, metric, values[~np.isnan(values)]


def _frame(cohort: str, metric: str, seconds: NDArray[np.float64]) -> pd.DataFrame:
    quantiles = np.percentile(seconds * 1e3, LEVELS) if len(seconds) else np.full(len(LEVELS), np.nan)
    return _frame_of(cohort, metric, quantiles)


def _frame_of(cohort: str, metric: str, values_ms: NDArray[np.float64]) -> pd.DataFrame:
    return pd.DataFrame({"cohort": cohort, "metric": metric, "percentile": LEVELS, "value_ms": values_ms})
