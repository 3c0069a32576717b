"""All-reduce: the form that fits what joins the GPUs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from servecast.hardware.engines import AllReduceTable, NvlinkAllReduce, RingAllReduce, load_engine
from servecast.hardware.gpus import load_gpu
from servecast.model.collectives import all_reduce_seconds, collective_seconds

NVLINK = NvlinkAllReduce(8e6, 4e-6, 0.0, 2e11, 3e11, 4e-6, RingAllReduce({2: (20e-6, 3e11), 8: (60e-6, 4.5e11)}))


def test_all_reduce_takes_the_kernel_that_fits_the_size() -> None:
    small, large = all_reduce_seconds(np.array([1e5, 1e8]), 8, NVLINK)
    twoshot = 4e-6 + 2 * 7 / 8 * 1e5 / 3e11
    assert small == pytest.approx(4e-6 + min(7 * 1e5 / 2e11, twoshot))
    assert large == pytest.approx(60e-6 + 2 * 7 / 8 * 1e8 / 4.5e11)


def test_unmeasured_numbers_of_gpus_take_the_next_smaller_ones_figures() -> None:
    four = all_reduce_seconds(np.array([1e8]), 4, NVLINK)
    assert four == pytest.approx([20e-6 + 2 * 3 / 4 * 1e8 / 3e11])


def seconds(key: str, gpus: int, bytes_: float = 2**20, **changes: object) -> float:
    gpu = replace(load_gpu(key), **changes)  # type: ignore[arg-type]  # any field
    kernels = load_engine("vllm-0.19").kernels_for(key)
    return float(collective_seconds(np.array([bytes_]), gpus, gpu, kernels)[0])


@pytest.mark.parametrize("gpus", [2, 4, 8])
def test_pcie_cards_differ_by_their_lanes_alone(gpus: int) -> None:
    """Not by the one server on which somebody measured a card."""
    assert seconds("l40s", gpus) == seconds("a10g", gpus)
    # half the lanes
    assert seconds("l40s", gpus) < seconds("t4", gpus) <= 2 * seconds("l40s", gpus)
    assert seconds("rtx-pro-6000", gpus) < seconds("l40s", gpus)


def test_what_a_gpus_file_states_of_its_server_goes_before_all_else() -> None:
    measured = {2: (10e-6, 12e9)}
    assert seconds("l40s", 2, 1.2e6, all_reduce=measured) == pytest.approx(10e-6 + 1.2e6 / 12e9)
    assert seconds("h100-sxm", 2, 1.2e6, all_reduce=measured) == pytest.approx(10e-6 + 1.2e6 / 12e9)
    # of other numbers of GPUs it says nothing
    assert seconds("h100-sxm", 4, all_reduce=measured) == seconds("h100-sxm", 4)


def test_a_mesh_gets_faster_with_more_gpus() -> None:
    """Each pair of MI300X has its own link, so two GPUs use one seventh of what eight do."""
    two, four, eight = (seconds("mi300x", gpus) for gpus in (2, 4, 8))
    assert two > four > eight
    # MI355X, 8 GPUs, 384 KiB: 13.1 us measured (vllm-project/vllm#39080)
    assert seconds("mi355x", 8, 384 * 1024) == pytest.approx(13.1e-6, rel=0.2)


def test_a_bridged_pair_reduces_over_its_bridge_and_more_over_pcie() -> None:
    pair, four = seconds("a100-80gb-pcie", 2, 1e8), seconds("a100-80gb-pcie", 4, 1e8)
    assert pair == pytest.approx(1e8 / 225e9, rel=0.02)
    assert four == pytest.approx(1.5e8 / (0.61 * 31.5e9), rel=0.02)


def test_a_table_is_read_straight_between_the_logarithms() -> None:
    table = AllReduceTable({2: ((1e4, 1e6), (5e-6, 20e-6)), 8: ((1e4, 1e6), (8e-6, 80e-6))})
    below, middle, above = all_reduce_seconds(np.array([1e3, 1e5, 2e6]), 2, table)
    assert (below, middle) == (pytest.approx(5e-6), pytest.approx(10e-6))
    assert above == pytest.approx(20e-6 + 1e6 * 15e-6 / 0.99e6)
    # four GPUs were not measured: the next smaller number's times
    assert all_reduce_seconds(np.array([1e5]), 4, table) == pytest.approx([10e-6])
