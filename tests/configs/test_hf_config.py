"""Model configs as people have them: odd, old, nested, broken. The files of `odd_configs` have invented values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from servecast.configs.architectures import load_architecture
from servecast.hardware.errors import ConfigError
from servecast.model.architecture import Architecture, Attention, DenseMlp, LatentAttention, MoeMlp, kv_bytes_per_token
from servecast.model.kv_cache import block_layout
from servecast.model.layout import ReplicaLayout, check_layout
from servecast.model.parameters import count_parameters
from servecast.model.weights import stage_weights_bytes

ODD = Path(__file__).parent / "odd_configs"


def odd(name: str) -> Architecture:
    return load_architecture(str(ODD / f"{name}.json"))


def kv_bytes(architecture: Architecture, windowed: bool | None = None, gpus: int = 1) -> int:
    """Bytes a token at 16 bit: of all layers, of those with a window, or of those without."""
    chosen = [
        layer
        for layer in architecture.layers
        if windowed is None or (window_of(layer.attention) is not None) == windowed
    ]
    return sum(kv_bytes_per_token(layer, 2, gpus) for layer in chosen)


def window_of(attention: Attention | LatentAttention) -> int | None:
    return attention.window if isinstance(attention, Attention) else None


def windows(architecture: Architecture) -> list[int | None]:
    return [window_of(layer.attention) for layer in architecture.layers]


def heads(architecture: Architecture, layer: int = 0) -> tuple[int, int, int]:
    """Query heads, KV heads, head size."""
    attention = architecture.layers[layer].attention
    assert isinstance(attention, Attention)
    return attention.num_heads, attention.num_kv_heads, attention.head_dim


# --- the quirks of odd_configs


def test_head_size_need_not_be_hidden_size_over_heads() -> None:
    gpt_oss = odd("head_dim_given")
    assert heads(gpt_oss) == (32, 4, 32)  # hidden size 720
    assert kv_bytes(gpt_oss) == 6 * 2 * 4 * 32 * 2
    assert windows(gpt_oss) == [64, None] * 3
    assert gpt_oss.layers[0].mlp == MoeMlp(8, 2, 720, bias=True)
    assert gpt_oss.quantization is not None
    assert gpt_oss.quantization.dtype == "mxfp4"


def test_null_kv_heads_mean_multi_head_attention() -> None:
    phi = odd("null_kv_heads")
    assert heads(phi) == (16, 16, 80)
    assert kv_bytes(phi) == 10 * 2 * 16 * 80 * 2


def test_longer_sequences_than_the_model_allows_are_refused() -> None:
    phi = odd("null_kv_heads")
    assert phi.max_model_len == 1024
    with pytest.raises(ConfigError, match="8192 tokens is more than"):
        check_layout(phi, ReplicaLayout(max_model_len=8192))


def test_language_model_is_found_beside_a_vision_tower_with_the_same_field_names() -> None:
    gemma = odd("text_config")
    assert (gemma.num_layers, gemma.hidden_size) == (14, 1536)
    assert heads(gemma) == (12, 6, 96)
    assert windows(gemma) == [512, 512, 512, 512, 512, None] * 2 + [512, 512]
    assert kv_bytes(gemma) == 14 * 2 * 6 * 96 * 2


def test_gemma_3_states_its_context_after_scaling() -> None:
    assert odd("text_config").max_model_len == 65536


def test_language_model_is_found_two_levels_down() -> None:
    omni = odd("text_config_two_deep")
    assert omni.num_layers == 12
    assert kv_bytes(omni) == 12 * 2 * 4 * 64 * 2


def test_layers_may_have_kv_heads_and_head_sizes_of_their_own() -> None:
    model = odd("per_layer_kv")
    assert heads(model, 0) == (8, 4, 128)
    assert heads(model, 4) == (8, 2, 256)
    assert kv_bytes(model, windowed=False) == 2 * 2 * 2 * 256 * 2
    assert kv_bytes(model, windowed=True) == 8 * 2 * 4 * 128 * 2
    assert windows(model) == [256, 256, 256, 256, None] * 2


def test_yarn_multiplies_the_context_and_llama_3_does_not() -> None:
    assert odd("rope_yarn").max_model_len == 8 * 4096
    check_layout(odd("rope_yarn"), ReplicaLayout(max_model_len=20_000))
    assert odd("rope_llama3").max_model_len == 65536


def test_window_limits_the_cache_but_not_the_context() -> None:
    mistral = odd("sliding_window")
    assert windows(mistral) == [1024] * 12
    assert mistral.max_model_len == 16384
    blocks = block_layout(mistral, mistral.layers, ReplicaLayout()).sequence_blocks(16384, 2048)
    assert 1024 <= blocks * 16 <= 1024 + 2048 + 32


def test_null_window_is_full_attention() -> None:
    assert windows(odd("sliding_window_null")) == [None] * 12


def test_latent_cache_is_the_same_whatever_the_tensor_parallel_size() -> None:
    deepseek = odd("mla")
    assert kv_bytes(deepseek) == kv_bytes(deepseek, gpus=4) == 9 * (256 + 32) * 2
    assert deepseek.max_model_len == 8192
    assert deepseek.layers[0].mlp == DenseMlp(4096)
    assert deepseek.layers[1].mlp == MoeMlp(16, 4, 512, shared_intermediate_size=2 * 512)


def test_tied_embeddings_follow_the_library_and_a_note_says_so() -> None:
    llama = odd("tied_missing")
    assert not llama.tied_embeddings
    assert any("tie_word_embeddings" in note for note in llama.notes)
    assert not any("tie_word_embeddings" in note for note in odd("rope_llama3").notes)


def test_linear_attention_is_refused_by_the_name_of_a_field() -> None:
    with pytest.raises(ConfigError, match=r"hybrid_linear.json:\d+: (full_attention_interval|linear_\w+): .*upport"):
        odd("hybrid_linear")


def test_newer_name_of_the_dtype() -> None:
    assert odd("dtype_new_key").dtype == "float16"
    assert odd("rope_llama3").dtype == "bfloat16"


def test_comma_at_the_end_is_an_error_with_its_place() -> None:
    with pytest.raises(ConfigError) as caught:
        odd("trailing_comma")
    message = str(caught.value)
    assert "trailing_comma.json:" in message
    assert "column" in message
    assert "\n" not in message


def test_byte_order_mark_does_not_matter() -> None:
    assert odd("bom").layers == odd("sliding_window_null").layers


# --- names of older models


def test_gpt_2_names() -> None:
    gpt2 = odd("gpt2_names")
    assert heads(gpt2) == (8, 8, 64)
    assert kv_bytes(gpt2) == 6 * 2 * 8 * 64 * 2
    assert gpt2.layers[0].mlp == DenseMlp(2048, gated=False, bias=True)
    assert (gpt2.max_model_len, gpt2.position_embeddings, gpt2.tied_embeddings) == (1024, 1024, True)


def test_opt_has_two_positions_more_than_it_says() -> None:
    opt = odd("opt_names")
    assert opt.layers[0].mlp == DenseMlp(2048, gated=False, bias=True)
    assert (opt.max_model_len, opt.position_embeddings) == (2048, 2050)


def test_falcon_has_one_kv_head_and_one_norm_a_layer() -> None:
    falcon = odd("falcon_names")
    assert heads(falcon) == (9, 1, 64)
    assert falcon.layers[0].mlp == DenseMlp(4 * 576, gated=False)
    assert falcon.layers[0].norms == 2  # weight and bias
    assert falcon.tied_embeddings


def test_mpt_hides_its_kv_heads_in_attn_config() -> None:
    mpt = odd("mpt_names")
    assert heads(mpt) == (8, 2, 64)
    assert mpt.layers[0].mlp == DenseMlp(2048, gated=False)
    assert mpt.max_model_len == 2048


# --- the files whose behaviour was written down from reports of what went wrong elsewhere


def usable(architecture: Architecture) -> int:
    return architecture.max_model_len


def kv_full(architecture: Architecture) -> int:
    return kv_bytes(architecture, windowed=False)


def kv_windowed(architecture: Architecture) -> int:
    return kv_bytes(architecture, windowed=True)


def kv_of_eight_gpus(architecture: Architecture) -> int:
    return kv_bytes(architecture, gpus=8)


@pytest.mark.needs_shared
@pytest.mark.parametrize(
    ("name", "measure", "expected"),
    [
        ("head_dim_gptoss", kv_bytes, 49_152),
        ("head_dim_gptoss", kv_windowed, 24_576),
        ("null_kv_heads", kv_bytes, 327_680),
        ("null_kv_heads", usable, 2048),
        ("text_config", kv_bytes, 507_904),
        ("text_config_two_deep", kv_bytes, 131_072),
        ("per_layer_kv", kv_full, 16_384),
        ("per_layer_kv", kv_windowed, 327_680),
        ("rope_scaling", usable, 32_768),
        ("rope_llama3", usable, 131_072),
        ("sliding_window", usable, 32_768),
        ("sliding_window", kv_full, 0),
        ("sliding_window_null", kv_windowed, 0),
        ("mla", kv_bytes, 31_104),
        ("mla", kv_of_eight_gpus, 31_104),
        ("gpt2_names", kv_bytes, 36_864),
        ("bom", kv_bytes, 131_072),
        ("dtype_new_key", kv_bytes, 131_072),
    ],
)
def test_shared_fixtures_read_as_written_down(
    shared_data: Path, name: str, measure: Callable[[Architecture], int], expected: int
) -> None:
    assert measure(load_architecture(str(shared_data / "fixtures" / f"config_{name}.json"))) == expected


@pytest.mark.needs_shared
def test_shared_fixtures_with_more_to_them(shared_data: Path) -> None:
    def load(name: str) -> Architecture:
        return load_architecture(str(shared_data / "fixtures" / f"config_{name}.json"))

    def weights_bytes(architecture: Architecture) -> int:
        return stage_weights_bytes(architecture, ReplicaLayout(), 0)

    gemma = load("text_config")
    groups = block_layout(gemma, gemma.layers, ReplicaLayout())
    assert len(groups.groups) * groups.bytes_per_block == 70 * 16 * 2 * 16 * 128 * 2
    assert weights_bytes(load("quant_ignore")) > count_parameters(load("quant_ignore")).total
    counts = count_parameters(load("quant_awq"))
    assert (
        weights_bytes(load("quant_awq")) > 2 * (counts.embedding + counts.head) + counts.attention / 2 + counts.mlp / 2
    )
    assert any("tie_word_embeddings" in note for note in load("tied_missing").notes)
    for name, place in (("hybrid_linear", "upport"), ("trailing_comma", "config_trailing_comma.json:1: ")):
        with pytest.raises(ConfigError, match=place):
            load(name)
