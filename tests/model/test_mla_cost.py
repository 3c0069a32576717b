"""Latent attention: sizes worked out by hand, both ways of attending, measured modules."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from servecast.hardware.engines import MlaDecodeCoefficients, MlaPrefillCoefficients, load_engine
from servecast.hardware.gpus import load_gpu
from servecast.model.architecture import LatentAttention, Quantization
from servecast.model.mla_cost import LatentForm, LatentShape, latent_form

DEEPSEEK = LatentAttention(128, 1536, 512, 64, 128, 128)
FP8_BLOCK = Quantization("fp8", group_size=128)
PREFILL = MlaPrefillCoefficients(t0_s=0.0, e_g=1.0, e_m=1.0, e_c=1.0, s_half_tokens=0.0)
DECODE = MlaDecodeCoefficients(t0_s=5e-5, e_w=1.0, e_m=1.0, e_c=1.0, p=12.0, h_pad=1.0, c_ctx_s_per_token=1e-10)


def ideal(heads: int = 16, attention: LatentAttention = DEEPSEEK, **changes: Any) -> LatentForm:
    """On a GPU of 1 PFLOP/s and 1 TB/s that reaches both."""
    shape = LatentShape(attention, 7168, heads)
    return replace(LatentForm(shape, PREFILL, None, DECODE, 2.0, 2.0, 1e15, 1e15, 1e12), **changes)


def measured(
    gpu: str, heads: int, *, fp8: bool = False, kv_bytes: float = 2.0, engine: str = "vllm-0.19"
) -> LatentForm:
    found = load_gpu(gpu)
    quantization = FP8_BLOCK if fp8 else None
    shape = LatentShape(DEEPSEEK, 7168, heads)
    return latent_form(shape, quantization, kv_bytes, found, load_engine(engine).kernels_for(gpu))


def test_weights_of_deepseek_v3() -> None:
    shape = LatentShape(DEEPSEEK, 7168, 128)
    assert shape.elements == 7168 * 2112 + 1536 * 192 * 128 + 512 * 256 * 128 + 128 * 128 * 7168
    assert shape.activation_values == 2 * 7168 + 2 * 2112 + (192 + 256 + 128) * 128
    assert shape.expanded_values == 640 * 128


def test_without_a_low_rank_query_it_is_projected_at_once() -> None:
    lite = LatentShape(LatentAttention(16, None, 512, 64, 128, 128), 2048, 16)
    assert lite.elements == 2048 * (16 * 192 + 576) + 512 * 256 * 16 + 16 * 128 * 2048


def test_a_decode_reads_each_latent_once_whatever_the_heads() -> None:
    few, more = (ideal(heads).decode_attention().per_context_token_s for heads in (1, 16))
    assert few == pytest.approx(576 * 2 / 1e12)
    assert more == pytest.approx(few, rel=0.01)


def test_many_heads_are_bound_by_scores() -> None:
    slope = ideal(128, peak=1e12).decode_attention().per_context_token_s
    assert slope == pytest.approx(2 * 1088 * 128 / 1e12, rel=1e-6)


def test_a_long_chunk_expands_what_is_cached() -> None:
    form = ideal()
    first, later = form.chunk_seconds(0, 1000), form.chunk_seconds(1000, 1000)
    pairs = 2 * 320 * 16 * 1000 / 1e15
    expansion = 2 * 512 * 256 * 16 / 1e15 + (576 * 2 + 4 * 16 * 256) / 1e12
    assert first == pytest.approx(pairs * 500)
    assert later == pytest.approx(pairs * 1500 + 1000 * expansion)


def test_a_short_chunk_takes_the_decode_kernel() -> None:
    form = ideal(short=replace(PREFILL, up_to_tokens=512))
    seconds = form.chunk_seconds(1000, 512)
    assert seconds == pytest.approx(2 * 1088 * 16 * 512 * (1000 + 256) / 1e15 + 1000 * 576 * 2 / 1e12)


def test_sparse_attention_sees_no_more_than_its_indexer_chooses() -> None:
    sparse = replace(DEEPSEEK, index_heads=64, index_head_dim=128, index_topk=2048)
    form = ideal(attention=sparse)
    assert form.window == 2048
    assert form.index_s_per_context_token() == pytest.approx(132 / 1e12)
    assert form.chunk_seconds(100_000, 1000) < ideal().chunk_seconds(100_000, 1000)


def test_no_token_more_makes_a_step_faster() -> None:
    form = measured("h100-sxm", 2)
    times = form.prompt_projections(np.arange(1.0, 3000.0)).total_s
    assert (np.diff(times) >= -1e-15).all()


@pytest.mark.parametrize(
    ("requests", "context", "measured_us"),
    [(1, 1025, 93.2), (1, 8193, 99.7), (32, 4097, 148.8), (128, 1025, 154.8), (128, 8193, 396.5)],
)
def test_decode_module_on_h200_as_measured(requests: int, context: int, measured_us: float) -> None:
    """vLLM 0.24.0, 16 heads, FP8 projections (aiconfigurator-core 0.12.0, Apache-2.0); p90 of the fit is 22 %."""
    assert _decode_us(measured("h200-sxm", 16, fp8=True), requests, context) == pytest.approx(measured_us, rel=0.23)


@pytest.mark.parametrize(
    ("prompts", "tokens", "measured_us"),
    [(1, 256, 135.2), (4, 512, 410.1), (1, 1024, 237.2), (4, 4096, 2606.0), (4, 8192, 5809.0)],
)
def test_prefill_module_on_h200_as_measured(prompts: int, tokens: int, measured_us: float) -> None:
    """As above; p90 of the fits is 10 to 12 %."""
    assert _prefill_us(measured("h200-sxm", 16, fp8=True), prompts, tokens) == pytest.approx(measured_us, rel=0.13)


@pytest.mark.parametrize(("gpu", "fp8"), [("a100-80gb-sxm", True), ("mi300x", True), ("rtx-pro-6000", False)])
def test_gpus_without_measurements_take_the_default(gpu: str, fp8: bool) -> None:
    form = measured(gpu, 16, fp8=fp8)
    assert form.short is None
    assert 0 < _decode_us(form, 1, 1000) < 1000


def test_an_fp8_cache_halves_what_is_read() -> None:
    wide = measured("b200-sxm", 16).decode_attention().per_context_token_s
    narrow = measured("b200-sxm", 16, kv_bytes=1.0).decode_attention().per_context_token_s
    assert 0.4 < narrow / wide < 0.75


@pytest.mark.needs_shared
@pytest.mark.parametrize(("gpu", "median", "p90"), [("h100_sxm", 7, 33), ("h200_sxm", 8, 33), ("b200_sxm", 10, 45)])
def test_whole_decode_tables(shared_data: Path, gpu: str, median: float, p90: float) -> None:
    errors = []
    for heads, rows in _module(shared_data, gpu, "mla_generation_module").groupby("num_heads"):
        form = measured(gpu.replace("_", "-"), int(str(heads)))
        requests, context = rows.batch_size.to_numpy(np.float64), rows.step.to_numpy(np.float64) + 1
        projections, attention = form.decode_projections(requests).total_s, form.decode_attention()
        cache = attention.per_context_token_s * requests * context + attention.per_longest_token_s * context
        errors.append((projections + attention.fixed_s + cache) * 1e6 / rows.latency_us.to_numpy() - 1)
    _check(np.concatenate(errors), median, p90)


@pytest.mark.needs_shared
@pytest.mark.parametrize(("gpu", "median", "p90"), [("h100_sxm", 4, 15), ("h200_sxm", 4, 15), ("b200_sxm", 6, 18)])
def test_whole_prefill_tables(shared_data: Path, gpu: str, median: float, p90: float) -> None:
    rows = _module(shared_data, gpu, "mla_context_module")
    errors = []
    for heads, group in rows[rows.isl >= 16].groupby("num_heads"):
        form = measured(gpu.replace("_", "-"), int(str(heads)))
        prompts, tokens = group.batch_size.to_numpy(), group.isl.to_numpy()
        chunks = np.array([form.chunk_seconds(0, int(length)) for length in tokens])
        seconds = form.prompt_projections((prompts * tokens).astype(np.float64)).total_s + prompts * chunks
        errors.append(seconds * 1e6 / group.latency_us.to_numpy() - 1)
    _check(np.concatenate(errors), median, p90)


def _check(errors: Any, median: float, p90: float) -> None:
    assert np.median(np.abs(errors)) * 100 < median
    assert np.quantile(np.abs(errors), 0.9) * 100 < p90


def _decode_us(form: LatentForm, requests: int, context: int) -> float:
    projections = form.decode_projections(np.array([float(requests)])).total_s[0]
    attention = form.decode_attention()
    cache = attention.per_context_token_s * requests * context + attention.per_longest_token_s * context
    return float(projections + attention.fixed_s + cache) * 1e6


def _prefill_us(form: LatentForm, prompts: int, tokens: int) -> float:
    projections = form.prompt_projections(np.array([float(prompts * tokens)])).total_s[0]
    return float(projections + prompts * form.chunk_seconds(0, tokens)) * 1e6


def _module(shared_data: Path, gpu: str, op: str) -> pd.DataFrame:
    rows = pd.read_csv(shared_data / "ops" / "moe" / "mla.csv.gz")
    rows = rows[(rows.gpu == gpu) & (rows.backend == "vllm") & (rows.op == op) & (rows.gemm_type == "bfloat16")]
    return rows[(rows.kv_cache_dtype == "bfloat16") & (rows.mla_dtype == "bfloat16")]
