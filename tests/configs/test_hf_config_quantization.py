"""Checkpoints that bring quantised weights: what stands for which dtype, and what stays at 16 bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servecast.configs.architectures import load_architecture
from servecast.hardware.errors import ConfigError
from servecast.model.architecture import Architecture, Quantization
from servecast.model.layout import ReplicaLayout
from servecast.model.parameters import count_parameters
from servecast.model.weights import stage_weights_bytes

ODD = Path(__file__).parent / "odd_configs"
PLAIN = "sliding_window_null"
MLA = "mla"

Quantised = Callable[..., Architecture]


def weights_bytes(architecture: Architecture) -> int:
    return stage_weights_bytes(architecture, ReplicaLayout(), 0)


def scheme(bits: int, kind: str, activations: bool = True, **weights: Any) -> dict[str, Any]:
    """A `quantization_config` of llm-compressor."""
    group = {
        "targets": ["Linear"],
        "weights": {"num_bits": bits, "type": kind, **weights},
        "input_activations": {"num_bits": bits, "type": kind} if activations else None,
    }
    return {"quant_method": "compressed-tensors", "config_groups": {"group_0": group}, "ignore": ["lm_head"]}


@pytest.fixture
def quantised(tmp_path: Path) -> Quantised:
    """Reads one of the odd configs with a `quantization_config`."""

    def reading(config: Any, base: str = PLAIN) -> Architecture:
        fields = json.loads((ODD / f"{base}.json").read_text(encoding="utf-8"))
        file = tmp_path / "config.json"
        file.write_text(json.dumps({**fields, "quantization_config": config}), encoding="utf-8")
        return load_architecture(str(file))

    return reading


def test_awq_leaves_embedding_head_and_cache_alone() -> None:
    awq = load_architecture(str(ODD / "quant_awq.json"))
    assert awq.quantization == Quantization("awq", 64)
    counts = count_parameters(awq)
    matrices = counts.attention + counts.mlp
    tables_bytes = 2 * (counts.embedding + counts.head)
    scales_bytes = matrices / 64 * 2.5
    assert weights_bytes(awq) == pytest.approx(tables_bytes + matrices / 2 + scales_bytes, rel=0.03)


def test_ignored_attention_makes_weights_larger_than_a_byte_a_parameter() -> None:
    fp8 = load_architecture(str(ODD / "quant_ignore.json"))
    assert fp8.quantization == Quantization("fp8", ignored=frozenset({"attention"}))
    counts = count_parameters(fp8)
    expected = counts.mlp + 2 * (counts.attention + counts.embedding + counts.head)
    assert weights_bytes(fp8) == pytest.approx(expected, rel=0.03)
    assert weights_bytes(fp8) > counts.total


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (None, None),
        ({"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": True}, Quantization("gptq", 128)),
        ({"quant_method": "gptq", "bits": 4, "group_size": -1}, Quantization("gptq")),
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, Quantization("fp8")),
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, Quantization("fp8", 128)),
        (scheme(8, "float"), Quantization("fp8")),
        (scheme(8, "int"), Quantization("int8")),
        (scheme(4, "int", activations=False, group_size=128), Quantization("w4a16", 128)),
        (scheme(4, "float", group_size=16), Quantization("nvfp4", 16)),
        ({"quant_method": "modelopt", "quant_algo": "FP8"}, Quantization("fp8")),
        (
            {"quant_method": "modelopt", "quant_algo": "FP8", "kv_cache_quant_algo": "FP8"},
            Quantization("fp8", kv_cache_dtype="fp8"),
        ),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}, Quantization("nvfp4", 16)),
        (
            {**scheme(8, "float"), "kv_cache_scheme": {"num_bits": 8, "type": "float"}},
            Quantization("fp8", kv_cache_dtype="fp8"),
        ),
    ],
)
def test_what_each_tool_writes(quantised: Quantised, config: Any, expected: Quantization | None) -> None:
    assert quantised(config).quantization == expected


def test_mxfp4_is_for_experts_only(quantised: Quantised) -> None:
    quantization = quantised({"quant_method": "mxfp4"}, MLA).quantization
    assert quantization is not None
    assert (quantization.dtype, quantization.group_size) == ("mxfp4", 32)
    assert {"attention"} <= quantization.ignored
    assert "experts" not in quantization.ignored


@pytest.mark.parametrize(
    ("entries", "ignored"),
    [
        (["lm_head"], set()),
        (["re:.*self_attn.*"], {"attention"}),
        (["model.layers.*.self_attn"], {"attention"}),
        ([f"model.layers.{i}.self_attn.{m}_proj" for i in range(9) for m in ("q", "kv_b", "o")], {"attention"}),
        (["self_attn.q_proj", "self_attn.kv_b_proj", "self_attn.o_proj"], {"attention"}),
        (["re:.*mlp.gate$", "re:.*router.*"], set()),  # the router, not gate_proj
        (["mlp.gate"], set()),
        (["re:.*shared_experts.*"], {"shared_experts"}),
        (["re:vision_tower.*", "vision_tower.encoder.layers.0.self_attn.q_proj"], set()),
        (["re:language_model.*self_attn.*"], {"attention"}),
    ],
)
def test_ignore_lists_name_modules_in_many_ways(quantised: Quantised, entries: list[str], ignored: set[str]) -> None:
    config = {**scheme(8, "float"), "ignore": ["lm_head", *entries]}
    quantization = quantised(config, MLA).quantization
    assert quantization is not None
    assert quantization.ignored == ignored


def test_parts_that_are_spared_in_some_layers_get_a_note(quantised: Quantised) -> None:
    model = quantised({"quant_method": "fp8", "modules_to_not_convert": ["model.layers.0.self_attn"]})
    assert model.quantization == Quantization("fp8")
    assert any("attention" in note for note in model.notes)


def test_language_model_inside_takes_the_whole_files_quantisation(tmp_path: Path) -> None:
    fields = json.loads((ODD / "text_config_two_deep.json").read_text(encoding="utf-8"))
    fields["quantization_config"] = {"quant_method": "fp8"}
    file = tmp_path / "config.json"
    file.write_text(json.dumps(fields), encoding="utf-8")
    assert load_architecture(str(file)).quantization == Quantization("fp8")


def test_modelopt_writes_a_file_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes((ODD / f"{PLAIN}.json").read_bytes())
    beside = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "NVFP4", "group_size": 16}}
    (tmp_path / "hf_quant_config.json").write_text(json.dumps(beside), encoding="utf-8")
    assert load_architecture(str(tmp_path)).quantization == Quantization("nvfp4", 16)


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"quant_method": "awk", "bits": 4}, r"quantization_config.quant_method: .*'awk'.*[Dd]id you mean 'awq'"),
        ({"quant_method": "bitsandbytes"}, "quant_method: .*bitsandbytes"),
        ({"bits": 4}, "quantization_config"),
        ({"quant_method": "awq", "bits": 3}, "quantization_config.bits: .*3"),
        ({"quant_method": "gptq", "bits": "4"}, "quantization_config.bits: must be a whole number"),
        ({"quant_method": "fp8", "weight_block_size": [128]}, "weight_block_size"),
        ({"quant_method": "compressed-tensors"}, "config_groups"),
        (scheme(2, "int"), "num_bits: .*2"),
        ({"quant_method": "fp8", "ignored_layers": "lm_head"}, "ignored_layers"),
        ({"quant_method": "fp8", "ignored_layers": ["re:*("]}, "regular expression"),
        ("awq", "quantization_config"),
    ],
)
def test_what_is_not_known_is_refused(quantised: Quantised, config: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        quantised(config)
