"""All-reduce coefficients come back from the times that they make."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from builders import a_gpu, real_engine
from servecast.hardware.engines import RingAllReduce
from servecast.model.calibration.all_reduce import AllReduceRows, RingFit, SmallAllReduceFit, ring_values
from servecast.model.calibration.fitting import fit

UNMEASURED = real_engine().default_kernels
SIZES = 2.0 ** np.arange(8, 24)


def rows(gpus: list[int]) -> AllReduceRows:
    sizes, numbers = (axis.ravel() for axis in np.meshgrid(SIZES, gpus))
    return AllReduceRows(np.ones(len(sizes)), sizes, numbers.astype(np.int64))


def test_small_messages() -> None:
    true = {"a_us": 4.0, "b_us_per_peer": 0.3, "bw_twoshot_gbs": 300.0, "bw_oneshot_gbs": 200.0, "x_twoshot_us": 4.0}
    start = {"a_us": 5.0, "b_us_per_peer": 0.1, "bw_twoshot_gbs": 250.0, "bw_oneshot_gbs": 250.0, "x_twoshot_us": 5.0}
    form, blank = SmallAllReduceFit(), rows([2, 4, 8])

    found = fit(form, replace(blank, seconds=form.seconds(blank, true)), start)

    assert found.values == pytest.approx(true, rel=0.05)


def test_one_number_of_gpus_does_not_tell_what_a_further_one_costs() -> None:
    start = {"a_us": 5.0, "b_us_per_peer": 0.1, "bw_twoshot_gbs": 250.0, "bw_oneshot_gbs": 250.0, "x_twoshot_us": 5.0}
    form, blank = SmallAllReduceFit(), rows([4])

    found = fit(form, replace(blank, seconds=form.seconds(blank, start)), start)

    assert found.kept["b_us_per_peer"].startswith("no measurements with a second number of GPUs")


def test_ring() -> None:
    form, blank, true = RingFit(4), rows([4]), {"a_us": 12.0, "busbw_gbs": 20.0}

    found = fit(form, replace(blank, seconds=form.seconds(blank, true)), ring_values(UNMEASURED, 4, a_gpu()))

    assert found.values == pytest.approx(true, rel=1e-3)


def test_an_unmeasured_ring_starts_from_the_datasheet_link() -> None:
    gpu = a_gpu()
    measured = replace(UNMEASURED, all_reduce=RingAllReduce({4: (1e-6, 1e9)}))

    assert ring_values(UNMEASURED, 4, gpu)["busbw_gbs"] == pytest.approx(0.75 * 450)
    assert ring_values(UNMEASURED, 4, replace(gpu, link=None))["busbw_gbs"] < 63
    assert ring_values(measured, 4, gpu) == pytest.approx({"a_us": 1.0, "busbw_gbs": 1.0})
