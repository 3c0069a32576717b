"""A simulation that is told to stop."""

from __future__ import annotations

import numpy as np

from builders import clock_engine, run, trace
from servecast.model.records import COMPLETED, UNFINISHED
from servecast.model.simulation import run_simulation


def test_it_ends_with_what_was_done_by_then() -> None:
    whole = run(trace([(float(i), 16, 2) for i in range(50)]), engine=clock_engine(0.1))
    part = run_simulation(whole.parameters, stop=lambda rows: rows.ended >= 20)
    assert (part.requests["state"] == COMPLETED).sum() == 20
    assert (part.requests["state"] == UNFINISHED).sum() == 30
    np.testing.assert_array_equal(part.requests["finish_s"][:20], whole.requests["finish_s"][:20])


def test_progress_is_told_all_the_same() -> None:
    parameters = run(trace([(float(i), 16, 2) for i in range(4)])).parameters
    seen: list[tuple[int, int]] = []
    run_simulation(parameters, lambda done, total: seen.append((done, total)), stop=lambda _: False)
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
