"""The price of a step: parts that add up, tables that agree with the formulas, sums in O(1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from builders import a_gpu, llama_8b, real_engine, tiny_model
from servecast.hardware.errors import ConfigError
from servecast.hardware.gpus import load_gpu
from servecast.model.architecture import Attention, DenseMlp, Layer, MoeMlp, Quantization
from servecast.model.forward import ForwardPass, build_forward_pass


def forward(architecture: Any = None, gpu: Any = None, **changes: Any) -> ForwardPass:
    settings: dict[str, Any] = {
        "dtype": "bfloat16",
        "kv_cache_dtype": "auto",
        "tensor_parallel_size": 1,
        "max_tokens": 8192,
        "max_rows": 256,
    }
    return build_forward_pass(architecture or llama_8b(), gpu or a_gpu(), real_engine(), **(settings | changes))


def test_decode_of_one_request_takes_little_more_than_reading_the_weights() -> None:
    """7.5e9 parameters without the embedding, 2 B each, at 85 % of 3.35 TB/s: 5.3 ms."""
    seconds = forward().steady_seconds(1, 1000, 1000)
    weights = (8.03e9 - 128256 * 4096) * 2 / (0.854 * 3.35e12)
    assert weights < seconds < 1.35 * weights


def test_a_steady_step_costs_what_its_parts_cost() -> None:
    price = forward()
    parts = price.base_seconds(16, 16, 16) + price.decode_seconds(16, 16_000, 2000)
    assert price.steady_seconds(16, 16_000, 2000) == pytest.approx(parts, rel=1e-12)


def test_steps_grow_evenly_with_the_context() -> None:
    price = forward()
    times = [price.steady_seconds(8, 8000 + 8 * i, 2000 + i) for i in range(5)]
    assert np.diff(times) == pytest.approx([price.decode_growth_s(8)] * 4)


def test_prefill_is_bound_by_compute() -> None:
    price = forward()
    assert price.layers.compute_s[8191] > 10 * price.layers.weights_bandwidth_s[8191]
    assert price.layers.weights_bandwidth_s[0] > 10 * price.layers.compute_s[0]


def test_two_chunks_share_one_launch() -> None:
    price = forward()
    together = price.prefill_seconds([(0, 512), (0, 512)])
    apart = 2 * price.prefill_seconds([(0, 512)])
    assert together < apart


def test_tensor_parallelism_divides_the_weights_and_adds_all_reduces() -> None:
    one, four = forward(), forward(tensor_parallel_size=4)
    assert one.layers.interconnect_s.sum() == 0
    assert (four.layers.interconnect_s > 0).all()
    ratio = one.layers.weights_bandwidth_s[0] / four.layers.weights_bandwidth_s[0]
    assert 3 < ratio < 4.5


def test_fp8_halves_the_weights_where_the_gpu_has_fp8() -> None:
    slow = forward().layers.weights_bandwidth_s[0]
    assert 0.4 < forward(dtype="fp8").layers.weights_bandwidth_s[0] / slow < 0.7


def test_a_gpu_without_fp8_reads_half_the_bytes_but_multiplies_in_16_bit() -> None:
    a100 = load_gpu("a100-80gb-sxm")
    plain, quantised = forward(gpu=a100), forward(gpu=a100, dtype="fp8")
    assert quantised.layers.compute_s[8191] == pytest.approx(plain.layers.compute_s[8191], rel=0.05)
    assert quantised.layers.weights_bandwidth_s[0] < 0.6 * plain.layers.weights_bandwidth_s[0]


def test_4_bit_weights_are_read_faster_still() -> None:
    times = [forward(dtype=dtype).steady_seconds(1, 100, 100) for dtype in ("bfloat16", "fp8", "awq")]
    assert times[0] > times[1] > times[2]


def test_a_quantised_checkpoint_stays_quantised_under_a_16_bit_dtype() -> None:
    checkpoint = replace(llama_8b(), quantization=Quantization("fp8"))
    assert forward(checkpoint).layers_s == forward(dtype="fp8").layers_s


def test_parts_that_a_checkpoint_leaves_at_16_bit_cost_16_bit() -> None:
    times = [
        forward(replace(llama_8b(), quantization=quantization)).layers_s[1]
        for quantization in (None, Quantization("fp8", ignored=frozenset({"attention"})), Quantization("fp8"))
    ]
    assert times[0] > times[1] > times[2]


def test_fp8_cache_reads_fewer_bytes() -> None:
    wide, narrow = forward(), forward(kv_cache_dtype="fp8")
    assert narrow.attention.per_context_token_s < 0.65 * wide.attention.per_context_token_s


def test_windowed_layers_read_no_more_than_their_window() -> None:
    price = forward(tiny_model((None, 128)))
    (window,) = price.attention.windows
    assert window.window == 128
    short = price.decode_seconds(1, 100, 100, [(100, 100)])
    longer = price.decode_seconds(1, 10_000, 10_000, [(128, 128)])
    full = forward(tiny_model((None, None))).decode_seconds(1, 10_000, 10_000)
    assert short < longer < full


def test_mixture_of_experts_has_no_price_yet() -> None:
    layer = Layer(Attention(8, 4, 64), MoeMlp(8, 2, 512))
    with pytest.raises(ConfigError, match="no step cost for Attention with MoeMlp"):
        forward(tiny_model(layers=(layer,)))


def test_unknown_dtype_names_the_valid_ones() -> None:
    with pytest.raises(ConfigError, match="unknown weight dtype 'fp7'"):
        forward(dtype="fp7")


def test_unlinked_gpus_reduce_over_pcie() -> None:
    gpu = load_gpu("a10g")
    layer = Layer(Attention(32, 8, 128), DenseMlp(14336))
    price = forward(llama_8b(), gpu=gpu, tensor_parallel_size=4)
    assert layer in llama_8b().layers
    assert price.layers.interconnect_s[8191] > price.layers.compute_s[8191] / 4
