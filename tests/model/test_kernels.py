"""Kernel times against numbers worked out by hand, and what must hold for any coefficients."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from servecast.hardware.engines import (
    DecodeCoefficients,
    GemmCoefficients,
    PrefillCoefficients,
)
from servecast.hardware.engines.profile import TOKEN_EDGES
from servecast.model.kernels import (
    GemmForm,
    PrefillAttention,
    attended_pairs,
    decode_attention,
    pnorm,
)

M = np.array([1.0, 64.0, 4096.0])


def test_pnorm_lies_between_the_larger_and_the_sum() -> None:
    assert pnorm(np.array([3.0]), np.array([4.0]), 2.0) == pytest.approx([5.0])
    assert pnorm(np.array([1e-200]), np.array([1.0]), 3.0) == pytest.approx([1.0])


def test_16_bit_gemm_is_bound_by_memory_for_few_tokens_and_by_compute_for_many() -> None:
    """1e12 FLOP/s, 1e9 B/s, no losses: 1000 x 1000 weights take 2 ms to read; 2e6 FLOP a token take 2 us."""
    form = GemmForm(GemmCoefficients(0.0, 1.0, 1.0, 50.0), 2.0, 2.0, 0.0, 1e12, 1e9, 100)
    time = form.seconds(np.array([1.0, 100_000.0]), 1000, 1000)
    assert time.memory_s[0] == pytest.approx((2e6 + 2e3 + 2e3) / 1e9)
    assert time.compute_s[0] == 0
    fast_memory = GemmForm(GemmCoefficients(0.0, 1.0, 1.0, 50.0), 2.0, 2.0, 0.0, 1e12, 1e15, 100)
    few = fast_memory.seconds(np.array([500.0]), 1000, 1000)
    assert few.compute_s == pytest.approx([1e-3])
    assert few.memory_s == pytest.approx([0.0])


def test_8_bit_gemm_adds_quantisation_and_tile_starvation() -> None:
    """M*N = 16384 per SM: starvation doubles the compute with s = 1; three bytes an activation are quantised."""
    form = GemmForm(GemmCoefficients(1e-6, 1.0, 1.0, 50.0, s=1.0), 1.0, 1.0, 3.0, 1e12, 1e12, 1)
    time = form.seconds(np.array([128.0]), 128, 1e6)
    assert time.fixed_s == pytest.approx([1e-6 + 3 * 128e6 / 1e12])
    assert time.compute_s == pytest.approx([2 * (2 * 128 * 128 * 1e6) / 1e12], rel=1e-6)


def test_gemm_time_grows_with_every_size() -> None:
    form = GemmForm(GemmCoefficients(4e-6, 0.77, 0.85, 3.0), 2.0, 2.0, 0.0, 989e12, 3.35e12, 132)
    base = form.seconds(M, 4096, 4096).total_s
    assert (np.diff(base) > 0).all()
    assert (form.seconds(M, 8192, 4096).total_s > base).all()
    assert (form.seconds(M, 4096, 8192).total_s > base).all()


@pytest.mark.parametrize(
    ("cached", "tokens", "window", "pairs"),
    [
        (0, 10, None, 50),
        (100, 10, None, 1050),
        (0, 10, 20, 50),
        (0, 10, 4, 4 * 2 + 6 * 4),
        (100, 10, 4, 40),
        (2, 10, 4, 2 * (2 + 1) + 8 * 4),
    ],
)
def test_attended_pairs(cached: int, tokens: int, window: int | None, pairs: float) -> None:
    assert attended_pairs(cached, tokens, window) == pairs


def test_chunks_of_a_prompt_cost_its_compute_once() -> None:
    """Without launch, tail and memory terms the chunks of a prompt add up to the prompt."""
    coefficients = PrefillCoefficients(t0_s=0.0, e_c=1.0, e_m=1e20, s_half_tokens=0.0, c_tail=0.0)
    attention = PrefillAttention(coefficients, 32, 8, 128, None, 1e15, 1e12, 132)
    whole = attention.chunk_seconds(0, 1000)
    parts = attention.chunk_seconds(0, 400) + attention.chunk_seconds(400, 600)
    assert whole == pytest.approx(parts)
    assert whole == pytest.approx(4 * 32 * 128 * 1000 * 500 / 1e15)


def test_decode_attention_reads_the_cache_once() -> None:
    coefficients = DecodeCoefficients(t0_s=1e-5, e_m=0.5, c_item_s=0.0, c_ctx_s_per_token=1e-10)
    attention = decode_attention(
        coefficients, num_heads=32, num_kv_heads=8, head_dim=128, kv_bytes=2.0, bytes_per_s=1e12, sm_count=100
    )
    assert attention.per_context_token_s == pytest.approx(2 * 8 * 128 * 2 / 0.5e12)
    assert attention.fixed_s == 1e-5
    assert attention.per_longest_token_s == 1e-10


def test_the_library_chooses_its_kernel_by_tokens() -> None:
    coefficients = GemmCoefficients(4e-6, 0.77, 0.85, 3.0)
    factors = tuple(1.5 if edge == 32 else 1.0 for edge in (*TOKEN_EDGES, 0))
    plain = GemmForm(coefficients, 2.0, 2.0, 0.0, 989e12, 3.35e12, 132)
    chosen = replace(plain, coefficients=replace(coefficients, by_tokens=factors))
    tokens = np.array([16.0, 17.0, 32.0, 33.0])
    ratio = chosen.seconds(tokens, 4096, 4096).total_s / plain.seconds(tokens, 4096, 4096).total_s
    assert ratio == pytest.approx([1.0, 1.5, 1.5, 1.0])


def test_activations_that_come_quantised_cost_neither_launch_nor_traffic() -> None:
    form = GemmForm(GemmCoefficients(5e-6, 0.5, 0.5, 3.0, quant_s=3e-6), 1.0, 1.0, 3.0, 1e15, 1e12, 132)
    apart, fused = (each.seconds(np.array([64.0]), 4096, 4096).total_s for each in (form, form.of_quantised))
    assert apart - fused == pytest.approx(3e-6 + 3 * 64 * 4096 / 0.5e12)


def test_a_tile_keeps_the_time_of_the_gpu_that_was_measured() -> None:
    """The same silicon with a quarter of the arithmetic does not feed a single output tile four times as slowly."""
    coefficients = GemmCoefficients(0.0, 0.5, 0.8, 4.0, s=0.5, tile_measured_on=(2e15, 132))
    measured, capped = (GemmForm(coefficients, 1.0, 1.0, 3.0, peak, 3e12, 132) for peak in (2e15, 0.5e15))
    few = [float(form.seconds(np.array([4.0]), 4096, 4096).total_s[0]) for form in (measured, capped)]
    assert few[1] == pytest.approx(few[0], rel=0.05)
