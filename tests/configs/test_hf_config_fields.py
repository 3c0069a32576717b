"""Fields of a model config that have several names, kinds or readings, and what is said of wrong ones."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from servecast.configs.architectures import load_architecture
from servecast.hardware.errors import ConfigError
from servecast.model.architecture import Architecture, Attention, MoeMlp
from servecast.model.parameters import count_parameters

ODD = Path(__file__).parent / "odd_configs"
LLAMA: dict[str, Any] = json.loads((ODD / "rope_llama3.json").read_text(encoding="utf-8"))

Read = Callable[..., Architecture]
Refused = Callable[..., str]


def _names(file: Path) -> list[str]:
    """Names of fields at the top of a config."""
    return list(json.loads(file.read_text(encoding="utf-8-sig")))


def windows(architecture: Architecture) -> list[int | None]:
    return [layer.attention.window for layer in architecture.layers if isinstance(layer.attention, Attention)]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads a Llama config with some fields changed, and those that are `...` left out."""

    def reading(**changes: Any) -> Architecture:
        fields = {name: value for name, value in {**LLAMA, **changes}.items() if value is not ...}
        file = tmp_path / "config.json"
        file.write_text(json.dumps(fields, indent=1), encoding="utf-8")
        return load_architecture(str(file))

    return reading


@pytest.fixture
def refused(read: Read, tmp_path: Path) -> Refused:
    """The message about such a config, without the folder's name."""

    def message(**changes: Any) -> str:
        with pytest.raises(ConfigError) as caught:
            read(**changes)
        text = str(caught.value)
        assert text.startswith(str(tmp_path / "config.json"))
        assert "\n" not in text
        return text.replace(f"{tmp_path}/", "")

    return message


# --- variants of one field


def test_real_gpt_2_has_124_million_parameters(read: Read) -> None:
    fields = {"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_layer": 12, "n_positions": 1024}
    only = dict.fromkeys(LLAMA, ...)
    assert count_parameters(read(**{**only, **fields, "vocab_size": 50257})).total == 124_439_808


@pytest.mark.parametrize(
    ("scaling", "context"),
    [
        (None, 65536),
        ({"type": "linear", "factor": 2.0}, 131072),
        ({"rope_type": "dynamic", "factor": 4.0}, 262144),
        ({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, 131072),
        ({"rope_type": "longrope", "short_factor": [1.0], "long_factor": [2.0]}, 65536),
        ({"type": "mrope", "mrope_section": [16, 24, 24]}, 65536),
    ],
)
def test_usable_context_by_kind_of_rope_scaling(read: Read, scaling: Any, context: int) -> None:
    assert read(rope_scaling=scaling).max_model_len == context


def test_newer_name_of_rope_scaling(read: Read) -> None:
    rope = {"rope_type": "linear", "factor": 2.0, "rope_theta": 10000}
    assert read(rope_scaling=..., rope_parameters=rope).max_model_len == 131072


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"model_type": "qwen2", "sliding_window": 4096}, [None] * 12),
        ({"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": False}, [None] * 12),
        (
            {"model_type": "qwen2", "sliding_window": 4096, "use_sliding_window": True, "max_window_layers": 9},
            [None] * 9 + [4096] * 3,
        ),
        ({"model_type": "gemma2", "sliding_window": 4096, "head_dim": 64}, [4096, None] * 6),
        ({"model_type": "cohere2", "sliding_window": 4096}, [4096, 4096, 4096, None] * 3),
        ({"model_type": "exaone4", "sliding_window": 4096, "sliding_window_pattern": "LLLG"}, [4096] * 3 + [None]),
        ({"model_type": "llama4_text", "attention_chunk_size": 8192}, [8192, 8192, 8192, None] * 3),
    ],
)
def test_which_layers_have_a_window(read: Read, changes: dict[str, Any], expected: list[int | None]) -> None:
    found = windows(read(**changes))
    assert found == (expected * 3)[:12]


def test_experts_in_every_other_layer(read: Read) -> None:
    model = read(num_experts=8, num_experts_per_tok=2, moe_intermediate_size=256, decoder_sparse_step=2)
    assert [isinstance(layer.mlp, MoeMlp) for layer in model.layers] == [False, True] * 6


def test_kinds_of_layers_listed_one_by_one(read: Read) -> None:
    model = read(sliding_window=512, layer_types=["full_attention"] * 4 + ["sliding_attention"] * 8)
    assert windows(model) == [None] * 4 + [512] * 8


def test_nested_text_models_leave_out_what_their_library_has_as_default(read: Read) -> None:
    """As the config.json of Gemma 3 4B does."""
    text = {"model_type": "gemma3_text", "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34}
    only = dict.fromkeys(LLAMA, ...)
    gemma = read(**{**only, "model_type": "gemma3", "text_config": {**text, "sliding_window": 1024}})
    attention = gemma.layers[0].attention
    assert isinstance(attention, Attention)
    assert (attention.num_heads, attention.num_kv_heads, attention.head_dim) == (8, 4, 256)
    assert (gemma.vocab_size, gemma.max_model_len) == (262_208, 131_072)
    assert any("num_attention_heads" in note for note in gemma.notes)


def test_unknown_model_type_is_read_like_llama_with_a_note(read: Read) -> None:
    model = read(model_type="llamb", architectures=["LlambForCausalLM"])
    assert model.layers == read().layers
    assert any("llamb" in note for note in model.notes)


# --- wrong input


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hidden_size": ...}, "hidden_size: is missing"),
        ({"num_hidden_layers": ...}, "num_hidden_layers"),
        ({"vocab_size": ...}, "vocab_size: is missing"),
        ({"num_attention_heads": 15}, "num_attention_heads: 15 heads do not divide the hidden size 1024"),
        ({"num_key_value_heads": 3}, "num_key_value_heads"),
        ({"num_key_value_heads": [4, 4]}, "num_key_value_heads"),
        ({"hidden_size": "1024"}, "hidden_size: must be a whole number, .* found '1024'"),
        ({"hidden_size": True}, "hidden_size: must be a whole number, .* found True"),
        ({"num_hidden_layers": -1}, "num_hidden_layers: must be a whole number, .* found -1"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers"),
        ({"tie_word_embeddings": "no"}, "tie_word_embeddings: must be true or false, found 'no'"),
        ({"rope_scaling": "yarn"}, "rope_scaling: must hold"),
        ({"rope_scaling": {"type": "linear", "factor": -2}}, "rope_scaling.factor: must be a number above 0"),
        ({"layer_types": ["full_attention"]}, "layer_types"),
        ({"layer_types": ["linear_attention"] * 12}, "layer_types: .*linear_attention"),
        ({"num_experts": 4, "num_experts_per_tok": 5, "moe_intermediate_size": 64}, "num_experts_per_tok"),
        ({"kv_lora_rank": 512}, "is missing"),
    ],
)
def test_wrong_field_is_named(refused: Refused, changes: dict[str, Any], message: str) -> None:
    text = refused(**changes)
    assert text.startswith("config.json")
    with pytest.raises(ConfigError, match=message):
        raise ConfigError(text)


def test_wrong_field_has_its_line(refused: Refused) -> None:
    assert refused(architectures=..., hidden_size="1024").startswith("config.json:3: hidden_size")


@pytest.mark.parametrize(
    "content", ["", "[1, 2]", "not json", '{"a": {', "[" * 100_000, '{"vocab_size": 1' + "0" * 5000]
)
def test_other_files_are_refused_in_one_line(tmp_path: Path, content: str) -> None:
    file = tmp_path / "config.json"
    file.write_text(content, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        load_architecture(str(file))
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


def test_git_lfs_pointer_is_called_one(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 700\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="Git LFS pointer"):
        load_architecture(str(file))


def test_missing_file_and_missing_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file"):
        load_architecture(str(tmp_path / "config.json"))
    with pytest.raises(ConfigError, match=r"the folder holds no config\.json"):
        load_architecture(str(tmp_path))


def test_folder_stands_for_its_config(read: Read, tmp_path: Path) -> None:
    assert read() == load_architecture(str(tmp_path))
    assert load_architecture("config.json", base_dir=tmp_path).layers == read().layers


def test_bytes_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_bytes(b"\x80\x81\x82\xff")
    with pytest.raises(ConfigError, match=r"config\.json"):
        load_architecture(str(file))


ANY_NAMES = sorted({name for file in ODD.glob("*.json") if file.stem != "trailing_comma" for name in _names(file)})
ANY_VALUE = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 10**6) | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(ANY_NAMES), inner, max_size=3),
    max_leaves=6,
)
ANY_FILE = st.sampled_from([file for file in sorted(ODD.glob("*.json")) if file.stem != "trailing_comma"])


@given(file=ANY_FILE, changes=st.dictionaries(st.sampled_from(ANY_NAMES), ANY_VALUE, max_size=3))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_stands_in_a_field_is_read_or_refused(file: Path, changes: dict[str, Any], tmp_path: Path) -> None:
    fields = json.loads(file.read_text(encoding="utf-8-sig"))
    changed = tmp_path / "config.json"
    changed.write_text(json.dumps({**fields, **changes}), encoding="utf-8")
    with contextlib.suppress(ConfigError):
        assert count_parameters(load_architecture(str(changed))).total > 0
