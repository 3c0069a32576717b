"""Parameter counts against sums by hand."""

from __future__ import annotations

from servecast.model.architecture import (
    Architecture,
    Attention,
    DenseMlp,
    LatentAttention,
    Layer,
    MoeMlp,
    VisionEncoder,
)
from servecast.model.parameters import ParameterCounts, active_parameters, count_parameters, layer_parameters

HIDDEN = 64
GQA = Attention(num_heads=4, num_kv_heads=2, head_dim=16)
MLP = DenseMlp(intermediate_size=128)


def model(layer: Layer, layers: int = 2, *, tied: bool = False, vision: VisionEncoder | None = None) -> Architecture:
    return Architecture("tiny", "Tiny", HIDDEN, 1000, tied, (layer,) * layers, 4096, vision=vision)


def test_a_dense_model() -> None:
    counts = count_parameters(model(Layer(GQA, MLP)))
    assert counts.embedding == counts.head == 1000 * HIDDEN
    assert counts.attention == 2 * (2 * 64 + 2 * 32) * HIDDEN
    assert counts.mlp == 2 * 3 * 128 * HIDDEN
    assert counts.small == (2 * 2 + 1) * HIDDEN
    assert counts.total == counts.active == 128_000 + 24_576 + 49_152 + 320


def test_a_tied_head_is_not_counted_twice() -> None:
    layer = Layer(GQA, MLP)
    assert count_parameters(model(layer)).total - count_parameters(model(layer, tied=True)).total == 1000 * HIDDEN


def test_biases_and_norms_are_small_parts() -> None:
    attention = Attention(4, 2, 16, qkv_bias=True, output_bias=True, qk_norm=True)
    counts = layer_parameters(Layer(attention, DenseMlp(128, gated=False, bias=True), norms=4), HIDDEN)
    assert counts.small == (64 + 2 * 32) + HIDDEN + 2 * 16 + (128 + HIDDEN) + 4 * HIDDEN
    assert counts.mlp == 2 * 128 * HIDDEN


def test_a_matrix_for_keys_and_values_together_counts_once() -> None:
    both = layer_parameters(Layer(GQA, MLP), HIDDEN).attention
    one = layer_parameters(Layer(Attention(4, 2, 16, value_is_key=True), MLP), HIDDEN).attention
    assert both - one == 32 * HIDDEN


def test_a_token_passes_through_its_experts_only() -> None:
    moe = MoeMlp(num_experts=8, experts_per_token=2, expert_intermediate_size=32, shared_intermediate_size=16)
    counts = count_parameters(model(Layer(GQA, moe), layers=1))
    expert = 3 * 32 * HIDDEN
    assert (counts.experts, counts.experts_used) == (8 * expert, 2 * expert)
    assert (counts.router, counts.mlp) == (8 * HIDDEN, 3 * 16 * HIDDEN)
    assert counts.total - counts.active == 6 * expert
    assert active_parameters(model(Layer(GQA, moe), layers=1)) == counts.active


def test_latent_attention_with_and_without_a_rank_for_queries() -> None:
    def matrices(q_lora_rank: int | None) -> int:
        latent = LatentAttention(4, q_lora_rank, kv_lora_rank=32, rope_head_dim=8, nope_head_dim=16, v_head_dim=16)
        return layer_parameters(Layer(latent, MLP), HIDDEN).attention

    keys_values_output = HIDDEN * (32 + 8) + 32 * 4 * (16 + 16) + 4 * 16 * HIDDEN
    assert matrices(None) == keys_values_output + HIDDEN * 4 * 24
    assert matrices(48) == keys_values_output + 48 * (HIDDEN + 4 * 24)


def test_the_image_tower_counts_in_the_total_but_not_for_a_text_token() -> None:
    counts = count_parameters(model(Layer(GQA, MLP), vision=VisionEncoder(5000, 256, 100)))
    assert counts.total - counts.active == counts.vision == 5000


def test_counts_add_and_multiply() -> None:
    part = ParameterCounts(attention=3, experts=10, experts_used=2)
    assert part + part == part.times(2)
    assert part.times(2).total == 2 * part.total == 26
