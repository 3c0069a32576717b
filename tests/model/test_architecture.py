"""What follows from the shapes of a model's layers."""

from __future__ import annotations

from servecast.model.architecture import (
    Architecture,
    Attention,
    DenseMlp,
    LatentAttention,
    Layer,
    kv_bytes_per_token,
)

FULL = Layer(Attention(num_heads=8, num_kv_heads=2, head_dim=16), DenseMlp(128))
WINDOWED = Layer(Attention(num_heads=8, num_kv_heads=2, head_dim=16, window=64), DenseMlp(128))


def test_equal_layers_make_one_group() -> None:
    model = Architecture("tiny", "Tiny", 128, 1000, False, (WINDOWED, FULL, WINDOWED, WINDOWED), 4096)
    assert model.num_layers == 4
    assert model.layer_groups == ((WINDOWED, 3), (FULL, 1))


def test_kv_heads_are_split_but_never_below_one() -> None:
    assert kv_bytes_per_token(FULL) == 2 * 2 * 16 * 2
    assert kv_bytes_per_token(FULL, tensor_parallel_size=2) == 2 * 1 * 16 * 2
    assert kv_bytes_per_token(FULL, tensor_parallel_size=8) == 2 * 1 * 16 * 2
    assert kv_bytes_per_token(FULL, element_bytes=1) == 2 * 2 * 16


def test_the_latent_is_whole_on_every_gpu() -> None:
    latent = LatentAttention(16, None, kv_lora_rank=512, rope_head_dim=64, nope_head_dim=128, v_head_dim=128)
    layer = Layer(latent, DenseMlp(128))
    assert kv_bytes_per_token(layer) == kv_bytes_per_token(layer, tensor_parallel_size=8) == (512 + 64) * 2


def test_what_a_model_is_called_does_not_make_it_another() -> None:
    one = Architecture("tiny", "Tiny", 128, 1000, False, (FULL,), 4096, source="here", notes=("guessed",))
    other = Architecture("tiny", "Tiny", 128, 1000, False, (FULL,), 4096)
    assert one == other
