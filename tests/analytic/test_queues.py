"""Simple cases against queueing theory."""

from __future__ import annotations

import numpy as np
import pytest

from builders import clock_engine, run, with_lengths
from servecast.model.arrivals import BatchArrivals, PoissonArrivals
from servecast.model.simulation import SimulationResult

REQUESTS = 40_000


def one_server(rate: float, seed_lengths: int = 1) -> SimulationResult:
    """One request at a time, one step of 1 s each: an M/D/1 queue."""
    ones = np.full(REQUESTS, seed_lengths)
    return run(with_lengths(PoissonArrivals(rate), ones, ones), max_num_seqs=1)


def interval(values: np.ndarray, batches: int = 20) -> tuple[float, float]:
    """Mean and half-width of its 99.9 % interval, by the method of batch means."""
    means = values[: len(values) // batches * batches].reshape(batches, -1).mean(axis=1)
    return float(means.mean()), float(3.9 * means.std(ddof=1) / np.sqrt(batches))


@pytest.mark.parametrize("load", [0.3, 0.6, 0.8])
def test_waiting_time_of_one_server_is_that_of_m_d_1(load: float) -> None:
    """Pollaczek-Khinchine with constant service of 1 s: the mean wait is load / (2 (1 - load))."""
    requests = one_server(load).requests
    mean, half_width = interval(requests["scheduled_s"] - requests["queued_s"])
    expected = load / (2 * (1 - load))
    assert abs(mean - expected) < half_width
    assert half_width < 0.25 * expected


def test_littles_law_holds_for_requests_in_the_system() -> None:
    """Time-average number in the system = arrival rate x mean time in the system, exactly, from empty to empty."""
    result = run(with_lengths(PoissonArrivals(2.0), [10] * 2000, [5] * 2000), max_num_seqs=16)
    arrival, finish = result.requests["arrival_s"], result.requests["finish_s"]
    span = finish.max() - arrival.min()
    steps = np.sort(np.concatenate([arrival, finish]))
    inside = np.searchsorted(np.sort(arrival), steps, "right") - np.searchsorted(np.sort(finish), steps, "right")
    number = float((inside[:-1] * np.diff(steps)).sum() / span)
    assert number == pytest.approx(len(arrival) / span * (finish - arrival).mean(), rel=1e-9)


def test_the_engine_sees_the_same_number_of_requests() -> None:
    """The same from the engine's own records: running requests over steps, against time from admission to the end."""
    result = run(with_lengths(PoissonArrivals(2.0), [10] * 2000, [5] * 2000), max_num_seqs=16)
    steps, requests = result.steps, result.requests
    running_s = (steps["running"] * steps["count"] * steps["duration_s"]).sum()
    served_s = (requests["finish_s"] - requests["scheduled_s"]).sum()
    assert running_s == pytest.approx(served_s, rel=1e-9)


def test_a_batch_takes_as_many_steps_as_its_longest_request() -> None:
    result = run(with_lengths(BatchArrivals(), [8] * 50, list(range(1, 51))), max_num_seqs=50)
    assert result.requests["finish_s"] == pytest.approx(np.arange(1, 51))


def test_work_is_conserved_over_replicas() -> None:
    """Two replicas at twice the rate wait less than one at the single rate, more than one without any load."""
    single = run(with_lengths(PoissonArrivals(0.8), [1] * 8000, [1] * 8000), max_num_seqs=1)
    pair = run(with_lengths(PoissonArrivals(1.6), [1] * 8000, [1] * 8000), max_num_seqs=1, replicas=2)
    waits = [float((r.requests["scheduled_s"] - r.requests["queued_s"]).mean()) for r in (single, pair)]
    assert 0 < waits[1] < waits[0]  # round robin smooths each replica's arrivals


def test_steps_of_an_engine_with_slower_steps_scale() -> None:
    slow = run(with_lengths(BatchArrivals(), [8], [10]), engine=clock_engine(2.5))
    assert slow.requests["finish_s"].tolist() == pytest.approx([25.0])
