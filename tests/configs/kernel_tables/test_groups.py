"""Which rows of which table go into which fit, and what is said of the others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from builders import real_engine
from servecast.configs.kernel_tables.group import Group
from servecast.configs.kernel_tables.groups import kernel_groups
from servecast.configs.kernel_tables.read import read_kernel_table
from servecast.hardware.engines import load_engine
from servecast.hardware.gpus import load_gpu
from servecast.model.calibration.fitting import error_pair, fit, fold_numbers

GEMM_HEADER = "gpu,backend,version,gemm_dtype,m,n,k,latency_us,cache\n"
ATTENTION_HEADER = (
    "backend,version,batch_size,isl,step,num_heads,num_key_value_heads,head_dim,attn_dtype,kv_cache_dtype,latency_us\n"
)
COLLECTIVE_HEADER = "gpu,lib,version,op_name,kernel_source,dtype,num_gpus,bytes,latency_us\n"
# The others are in benchmarks/calibration/round_trip.py; reading their tables takes seconds each.
TABLE_NAMES = {"a100-80gb-sxm": "a100_sxm", "h100-sxm": "h100_sxm"}


def groups(tmp_path: Path, text: str, gpu: str = "h100-sxm") -> tuple[dict[str, Group], list[str]]:
    (tmp_path / "mine.csv").write_text(text)
    found, notes = kernel_groups([read_kernel_table(tmp_path / "mine.csv")], load_gpu(gpu), real_engine())
    return {group.name: group for group in found}, notes


def test_gemms_by_number_type_with_those_of_others_counted(tmp_path: Path) -> None:
    found, _ = groups(
        tmp_path,
        GEMM_HEADER
        + "h100_sxm,vllm,0.24.0,bfloat16,1,8192,8192,50,\n"
        + "h100_sxm,vllm,0.9.2,bfloat16,1,8192,8192,60,\n"
        + "h100_sxm,vllm,0.24.0,fp8,1,8192,8192,30,\n"
        + "h100_sxm,vllm,0.24.0,fp8_block,1,8192,8192,30,\n"
        + "h100_sxm,sglang,0.5,bfloat16,1,8192,8192,40,\n"
        + "l40s,vllm,0.24.0,bfloat16,1,8192,8192,90,\n"
        + "h100_sxm,vllm,0.24.0,bfloat16,1,256,8192,5,\n"
        + "h100_sxm,vllm,0.24.0,bfloat16,1,1024,1024,5,\n"
        + "h100_sxm,vllm,0.24.0,bfloat16,1,1024,1024,6,flushed\n",
    )

    assert set(found) == {"gemm_16bit", "gemm_fp8"}
    assert found["gemm_16bit"].rows.seconds == pytest.approx([50e-6, 6e-6])
    assert found["gemm_16bit"].notes == (
        "1 of other GPUs (l40s)",
        "1 of other engines (sglang)",
        "1 of vllm before 0.24.0",
        "1 of number types without a form (fp8_block ...)",
        "1 narrower than 512",
        "1 whose weights stay in the L2 cache (6 copies)",
    )
    assert "vllm 0.24.0" in found["gemm_16bit"].source
    assert "sha256" in found["gemm_16bit"].source


def test_pytorch_stands_in_for_an_engine_that_was_not_measured(tmp_path: Path) -> None:
    found, _ = groups(tmp_path, GEMM_HEADER + ",torch,2.9,bfloat16,1,8192,8192,50,flushed\n")

    assert found["gemm_16bit"].notes == ("PyTorch's kernels stand in for those of vllm",)


def test_another_engines_table_comes_to_nothing_with_the_reason(tmp_path: Path) -> None:
    found, notes = groups(tmp_path, GEMM_HEADER + "h100_sxm,sglang,0.5,bfloat16,1,8192,8192,40,\n")

    assert found == {}
    assert notes == ["gemm: no rows left: 1 of other engines (sglang)"]


def test_arithmetic_that_the_gpu_lacks(tmp_path: Path) -> None:
    found, notes = groups(tmp_path, GEMM_HEADER + ",vllm,0.24.0,fp8,1,8192,8192,30,\n", "a100-80gb-sxm")

    assert found == {}
    assert notes == ["gemm_fp8: no rows left: 1 for which a100-80gb-sxm has no arithmetic"]


def test_attention_rows_are_prefills_or_decodes_by_their_step(tmp_path: Path) -> None:
    found, _ = groups(
        tmp_path,
        ATTENTION_HEADER
        + "vllm,0.24.0,4,2048,0,32,8,128,bfloat16,bfloat16,200\n"
        + "vllm,0.24.0,4,2048,0,32,8,128,fp8,fp8,100\n"
        + "vllm,0.24.0,64,1,16383,32,8,128,bfloat16,bfloat16,900\n"
        + "vllm,0.24.0,64,1,16383,32,8,128,bfloat16,fp8,500\n"
        + "vllm,0.24.0,4,1,4095,32,8,128,bfloat16,bfloat16,20\n"
        + "vllm,0.24.0,64,1,16383,32,8,64,bfloat16,bfloat16,400\n"
        + "vllm,0.24.0,64,1,16383,32,8,96,bfloat16,bfloat16,400\n",
    )

    assert {name: len(group.rows) for name, group in found.items()} == {
        "prefill": 1,
        "decode": 1,
        "decode_fp8_kv": 1,
        "decode_hd64": 1,
    }
    assert vars(found["decode"].rows)["tokens"].tolist() == [16384]
    assert "1 whose KV cache stays in the L2 cache" in found["decode"].notes
    assert "1 of head sizes other than 64, 128 and 256" in found["decode"].notes


def test_all_reduce_over_nvlink_has_a_small_kernel_and_rings_above_it(tmp_path: Path) -> None:
    sizes = [2**power for power in range(10, 28)]
    custom = "".join(f"h100_sxm,vllm,0.24.0,all_reduce,vLLM_custom_graph,bfloat16,4,{size},9\n" for size in sizes)
    nccl = "".join(f"h100_sxm,nccl,2.29.2,all_reduce,NCCL,half,4,{size},19\n" for size in sizes)
    found, _ = groups(tmp_path, COLLECTIVE_HEADER + custom + nccl)

    assert {name: len(group.rows) for name, group in found.items()} == {
        "all_reduce_small": 14,
        "all_reduce_large_n4": 4,
    }


def test_all_reduce_over_pcie_is_one_ring_for_all_sizes(tmp_path: Path) -> None:
    nccl = "".join(f"l40s,nccl,2.29.2,all_reduce,NCCL,half,2,{2**power},19\n" for power in range(10, 28))
    found, _ = groups(tmp_path, COLLECTIVE_HEADER + nccl, "l40s")

    assert {name: len(group.rows) for name, group in found.items()} == {"all_reduce_pcie_n2": 18}


@pytest.fixture(scope="module")
def public_groups(shared_data: Path) -> dict[tuple[str, str], Group]:
    """By GPU and group; the fits start from the universal default, as if nobody had measured the GPU."""
    unmeasured = replace(load_engine("vllm-0.19"), kernels={})
    found: dict[tuple[str, str], Group] = {}
    for gpu, name in TABLE_NAMES.items():
        files = (f"gemm_aic_{name}", f"attn_decode_aic_{name}")
        tables = [read_kernel_table(shared_data / "ops" / f"{file}.csv.gz") for file in files]
        found |= {(gpu, group.name): group for group in kernel_groups(tables, load_gpu(gpu), unmeasured)[0]}
    return found


def held_out_median_pct(group: Group) -> float:
    """On the half of the shapes that was not fitted."""
    halves = fold_numbers(group.form.shapes(group.rows), 2)
    values = fit(group.form, group.rows.where(halves == 0), group.defaults).values
    other = group.rows.where(halves == 1)
    return error_pair(group.form.seconds(other, values), other.seconds).median_pct


@pytest.mark.needs_shared
@pytest.mark.parametrize("gpu", TABLE_NAMES)
def test_16_bit_gemms_of_half_of_the_shapes_predict_the_other_half(
    public_groups: dict[tuple[str, str], Group], gpu: str
) -> None:
    assert held_out_median_pct(public_groups[gpu, "gemm_16bit"]) <= 7


@pytest.mark.needs_shared
def test_decode_attention_of_half_of_the_heads_predicts_the_other_half(
    public_groups: dict[tuple[str, str], Group],
) -> None:
    assert held_out_median_pct(public_groups["h100-sxm", "decode"]) <= 4


@pytest.mark.needs_shared
def test_32_random_gemms_suffice(public_groups: dict[tuple[str, str], Group]) -> None:
    group, medians = public_groups["h100-sxm", "gemm_16bit"], []
    for seed in range(5):
        drawn = np.zeros(len(group.rows), dtype=bool)
        drawn[np.random.default_rng(seed).choice(len(group.rows), 32, replace=False)] = True
        values = fit(group.form, group.rows.where(drawn), group.defaults).values
        rest = group.rows.where(~drawn)
        medians.append(error_pair(group.form.seconds(rest, values), rest.seconds).median_pct)

    assert np.median(medians) <= 7
