"""The plan: what it must hold for `servecast calibrate` to determine every coefficient."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from servecast.hardware.measure.plan import AllReduce, Attention, Copy, Gemm, Machine, items, unfit

H100 = Machine(memory_bytes=79 * 2**30, gpus=1, fp8=True)


@pytest.mark.parametrize("dtype", ["bfloat16", "fp8"])
def test_32_gemms_of_16_matrices_through_every_octave_of_tokens(dtype: str) -> None:
    gemms = [item for item in items(["gemm"]) if isinstance(item, Gemm) and item.gemm_dtype == dtype]

    assert len(gemms) == len(set(gemms)) == 32
    assert len({(gemm.n, gemm.k) for gemm in gemms}) == 16
    assert {int(math.log2(gemm.m)) for gemm in gemms} == set(range(14))


def test_attention_of_several_kinds_of_heads() -> None:
    attentions = [item for item in items(["attention"]) if isinstance(item, Attention)]

    assert {(a.num_heads, a.num_key_value_heads) for a in attentions} >= {(32, 8), (8, 1), (16, 16)}
    assert {a.step > 0 for a in attentions} == {True, False}
    assert max(a.step for a in attentions) >= 100_000


def test_copies_in_pieces_of_a_block_and_in_large_ones_both_ways() -> None:
    copies = [item for item in items(["copy"]) if isinstance(item, Copy)]

    assert {c.copy for c in copies} == {"device_to_device", "host_to_device", "device_to_host"}
    assert min(c.bytes for c in copies) == 32 * 2**10
    assert max(c.bytes for c in copies) == 256 * 2**20


def test_kinds_can_be_chosen() -> None:
    assert {type(item) for item in items(["copy", "all-reduce"])} == {Copy, AllReduce}


def test_everything_but_all_reduces_fits_one_large_gpu() -> None:
    left_out = {item: unfit(item, H100) for item in items()}

    assert {type(item) for item, why in left_out.items() if why is not None} == {AllReduce}


@pytest.mark.parametrize(
    ("item", "machine", "why"),
    [
        (AllReduce(4, 1024), H100, "needs 4 GPUs, here is 1"),
        (AllReduce(8, 1024), replace(H100, gpus=4), "needs 8 GPUs, here are 4"),
        (Gemm("fp8", 1, 512, 512), replace(H100, fp8=False), "needs FP8 arithmetic"),
        (Attention(256, 1, 2047, 16, 16, 128), replace(H100, memory_bytes=2**33), "more than half of the GPU's memory"),
    ],
)
def test_what_a_machine_cannot_do_has_a_reason(item: AllReduce, machine: Machine, why: str) -> None:
    assert why in str(unfit(item, machine))
