"""The price of a step: parts that add up, tables that agree with the formulas, sums in O(1)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from builders import a_gpu, llama_8b, real_engine, tiny_model
from servecast.configs.architectures import load_architecture, model_keys
from servecast.hardware.errors import ConfigError
from servecast.hardware.gpus import load_gpu
from servecast.model.architecture import Architecture, Attention, DenseMlp, Layer, MoeMlp, Quantization
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


def a_mixture(shared: int = 0) -> Architecture:
    layer = Layer(Attention(8, 4, 64), MoeMlp(8, 2, 512, shared_intermediate_size=shared))
    return tiny_model(layers=(layer,))


def test_shared_experts_and_the_router_cost_a_gemm_more() -> None:
    without, with_shared = forward(a_mixture()), forward(a_mixture(shared=1024))
    dense = forward(tiny_model((None,)))
    assert without.layers_s[1] < with_shared.layers_s[1]
    assert dense.layers_s[1] < without.layers_s[1]


def test_experts_are_read_as_far_as_they_are_hit() -> None:
    """Mixtral: one token uses 2 of 8 experts, 64 tokens all of them."""
    price = forward(load_architecture("mixtral-8x7b"), tensor_parallel_size=2)
    one, many = price.layers.weights_bandwidth_s[0], price.layers.weights_bandwidth_s[63]
    assert 2.5 < many / one < 4


def test_an_all_to_all_stands_in_place_of_one_all_reduce() -> None:
    mixtral, settings = load_architecture("mixtral-8x7b"), {"tensor_parallel_size": 8, "enable_expert_parallel": True}
    reduced = forward(mixtral, **settings)
    exchanged = forward(mixtral, all2all_backend="deepep_high_throughput", **settings)
    assert exchanged.layers.compute_s == pytest.approx(reduced.layers.compute_s)
    assert exchanged.layers.interconnect_s[0] > reduced.layers.interconnect_s[0]


def test_latent_attention_prices_decodes_and_prompts_apart() -> None:
    price = forward(load_architecture("deepseek-v2-lite"))
    assert (price.steady_layers.total_s[:64] != price.layers.total_s[:64]).any()
    dense = forward()
    assert (dense.steady_layers.total_s == dense.layers.total_s[:256]).all()


def test_sparse_attention_reads_its_window_and_the_index_of_all() -> None:
    price = forward(load_architecture("deepseek-v3.2"), tensor_parallel_size=8)
    (window,) = price.attention.windows
    assert window.window == 2048
    assert 0 < price.attention.per_context_token_s < window.per_context_token_s


@pytest.mark.parametrize("model", model_keys())
def test_every_model_of_the_catalogue_prices_a_step(model: str) -> None:
    """Longer with tokens, requests and context."""
    price = forward(load_architecture(model), load_gpu("h200-sxm"), max_tokens=512, max_rows=64)
    # Kernels chosen by the number of tokens, and graphs, make single steps of the table go down a little.
    layers = np.array(price.layers_s)
    assert (layers[2::2] > 0.85 * layers[1 : len(layers[2::2]) + 1]).all()
    assert layers[512] > layers[1]
    assert (np.diff(price.steady_s[1:]) > 0).all()
    cut = {context: [min(context, cost.window) for cost in price.attention.windows] for context in (1000, 2000)}
    short, long = (
        price.steady_seconds(8, 8 * context, context, [(8 * seen, seen) for seen in windows])
        for context, windows in cut.items()
    )
    assert 0.5e-3 < short < long < 1
    assert price.prefill_seconds([(0, 512)]) < price.prefill_seconds([(4096, 512)]) < 1


def test_unknown_dtype_names_the_valid_ones() -> None:
    with pytest.raises(ConfigError, match="unknown weight dtype 'fp7'"):
        forward(dtype="fp7")


def test_unlinked_gpus_reduce_over_pcie() -> None:
    gpu = load_gpu("a10g")
    layer = Layer(Attention(32, 8, 128), DenseMlp(14336))
    price = forward(llama_8b(), gpu=gpu, tensor_parallel_size=4)
    assert layer in llama_8b().layers
    assert price.layers.interconnect_s[8191] > price.layers.compute_s[8191] / 4
