"""The model catalogue: names that lead to an entry, files of the user's, and published sizes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from servecast.configs.architectures import load_architecture, model_entry, model_keys
from servecast.hardware.errors import ConfigError
from servecast.model.parameters import count_parameters

TINY = {
    "model_type": "llama",
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": True,
}


@pytest.mark.parametrize("key", model_keys())
def test_parameters_agree_with_the_published_ones(key: str) -> None:
    total_b = count_parameters(load_architecture(key)).total / 1e9
    entry = model_entry(key)
    assert total_b == pytest.approx(entry.published_parameters_b, rel=0.01) or entry.published_note
    assert total_b == pytest.approx(entry.published_parameters_b, rel=0.05)


@pytest.mark.parametrize("key", model_keys())
def test_entries_say_where_they_are_from(key: str) -> None:
    assert model_entry(key).source
    assert load_architecture(key).source == model_entry(key).source


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("Llama-3.1-8B", "llama-3.1-8b"),
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"),
        ("codellama/CodeLlama-7b-Instruct-hf", "codellama-7b"),
        ("google/gemma-3-27b-it", "gemma-3-27b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b"),
        ("deepseek-ai/DeepSeek-V2-Lite-Chat", "deepseek-v2-lite"),
        ("Qwen/Qwen3-30B-A3B", "qwen3-30b-a3b"),
        ("openai/gpt-oss-20b", "gpt-oss-20b"),
    ],
)
def test_hugging_face_names_lead_to_the_entry(name: str, key: str) -> None:
    assert load_architecture(name).key == key


@pytest.mark.parametrize(
    ("name", "key", "dtype"),
    [
        ("RedHatAI/Llama-3.3-70B-Instruct-FP8-dynamic", "llama-3.3-70b", "fp8"),
        ("redhatai/Llama-3.3-70B-Instruct-quantized.w8a8", "llama-3.3-70b", "int8"),
        ("Qwen/Qwen2.5-7B-Instruct-AWQ", "qwen2.5-7b", "awq"),
        ("TheBloke/Llama-2-7B-GPTQ", "llama-2-7b", "gptq"),
        ("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int4", "qwen2.5-7b", "gptq"),
    ],
)
def test_names_of_quantised_checkpoints_bring_their_dtype(name: str, key: str, dtype: str) -> None:
    model = load_architecture(name)
    assert model.quantization is not None
    assert (model.key, model.quantization.dtype) == (key, dtype)
    assert any(name in note for note in model.notes)


def test_quantised_llama_4_leaves_its_attention_alone() -> None:
    model = load_architecture("RedHatAI/Llama-4-Scout-17B-16E-Instruct-FP8-dynamic")
    assert model.quantization is not None
    assert model.quantization.ignored == {"attention"}


def test_8_bit_gptq_is_not_taken_for_4_bit() -> None:
    with pytest.raises(ConfigError, match="unknown model"):
        load_architecture("Qwen/Qwen2.5-7B-Instruct-GPTQ-Int8")


def test_an_unknown_model_gets_a_near_miss() -> None:
    with pytest.raises(ConfigError, match=r"unknown model 'llama-3.1-9b'. Did you mean 'llama-3.1-8b'\?"):
        load_architecture("llama-3.1-9b")


def test_entries_know_more_than_shapes() -> None:
    falcon = model_entry("tiiuae/falcon-7b")
    assert (falcon.key, falcon.published_parameters_b) == ("falcon-7b", 7.22)
    assert "output matrix" in falcon.published_note
    with pytest.raises(ConfigError, match="unknown model"):
        model_entry("no-such-model")


def test_a_checkpoint_folder_is_named_after_itself(tmp_path: Path) -> None:
    folder = tmp_path / "My_Llama"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(TINY))
    model = load_architecture("My_Llama", tmp_path)
    assert (model.key, model.name, model.num_layers) == ("my-llama", "My_Llama", 2)
    assert load_architecture("./My_Llama/config.json", tmp_path) == model


def test_a_folder_of_the_hugging_face_cache_is_named_after_the_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "models--my-org--My-Llama" / "snapshots" / "0a1b2c"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(TINY))
    assert load_architecture(str(folder)).name == "My-Llama"


def test_a_file_goes_before_an_organisation(tmp_path: Path) -> None:
    (tmp_path / "my-org").mkdir()
    (tmp_path / "my-org" / "tiny.json").write_text(json.dumps(TINY))
    assert load_architecture("my-org/tiny.json", tmp_path).name == "tiny"


def test_users_may_write_yaml_in_either_form(tmp_path: Path) -> None:
    plain, entry = tmp_path / "plain.yaml", tmp_path / "entry.yaml"
    plain.write_text("\n".join(f"{name}: {json.dumps(value)}" for name, value in TINY.items()))
    entry.write_text(f"name: Tiny\nrotary_rows: 9000\nunquantised: [attention]\nconfig: {json.dumps(TINY)}\n")
    model = load_architecture(str(entry))
    assert model.layers == load_architecture(str(plain)).layers
    assert (model.name, model.rotary_rows, model.unquantised) == ("Tiny", 9000, frozenset({"attention"}))


def test_an_entrys_vision_figures_stand_in_for_the_estimate() -> None:
    gemma = load_architecture("gemma-3-27b")
    assert gemma.vision is not None
    assert gemma.vision.item_tokens == 256
    assert not any("estimated" in note for note in gemma.notes)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nam: x\nconfig: {}", r"m\.yaml:1: nam: unknown key. Did you mean 'name'\?"),
        (
            "unquantised: [atention]\nconfig: {model_type: llama}",
            r"m\.yaml:1: unquantised: unknown part 'atention'. Did you mean 'attention'",
        ),
        (
            "name: x\nconfig:\n  hidden_size: wide\n  num_hidden_layers: 2",
            r"m\.yaml:3: config\.hidden_size: must be a whole",
        ),
        ("just words", "must hold the fields of a model"),
    ],
)
def test_wrong_entries_name_line_and_key(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "m.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_architecture(str(file))


def test_missing_files_are_said_to_be_missing(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"gone\.json: no such file"):
        load_architecture("gone.json", tmp_path)
    with pytest.raises(ConfigError, match=r"the folder holds no config\.json"):
        load_architecture(str(tmp_path))
