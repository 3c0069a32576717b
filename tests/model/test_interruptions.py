"""When requests are preempted and come back."""

from __future__ import annotations

import numpy as np

from builders import clock_engine, run, trace
from servecast.model.interruptions import Interruptions, interruption_columns


def test_times_of_a_preemption_by_hand() -> None:
    # Steps of 1 s, 4 blocks of 16 tokens. Both prompts take 2 blocks in step 1, which gives the first tokens. The
    # 33rd token needs a third block: the second request goes when step 2 is planned, and is back when the first ends.
    result = run(trace([(0.0, 32, 3), (0.0, 32, 3)]), engine=clock_engine(1.0), blocks=4)
    row = {name: column.tolist() for name, column in result.interruptions.items()}
    assert row["id"] == [1]
    assert row["swapped"] == [0]
    np.testing.assert_allclose(row["preempted_s"], [1.0])
    np.testing.assert_allclose(row["resumed_s"], [3.0])
    np.testing.assert_allclose(row["restored_s"], [4.0])


def test_there_are_as_many_rows_as_preemptions_whether_coasting_or_not() -> None:
    workload = trace([(0.1 * i, 40, 60) for i in range(20)])
    for swap in ("recompute", "swap"):
        runs = [run(workload, engine=clock_engine(0.1), blocks=20, coast=c, preemption=swap) for c in (True, False)]
        first, second = (result.interruptions for result in runs)
        assert len(first["id"]) == runs[0].requests["preemptions"].sum() > 0
        assert set(first["swapped"]) == {float(swap == "swap")}
        for name, column in first.items():
            np.testing.assert_allclose(column, second[name], atol=1e-9)


def test_no_preemptions_are_no_rows() -> None:
    assert interruption_columns([Interruptions(), Interruptions()])["id"].shape == (0,)
