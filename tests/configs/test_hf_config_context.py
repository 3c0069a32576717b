"""Context and position tables by model family, and models with more than one table."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from servecast.configs.architectures import load_architecture
from servecast.model.architecture import Architecture, Attention, MoeMlp
from servecast.model.parameters import count_parameters

BASE = {
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 2048,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "vocab_size": 32000,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}
GEMMA_4_31B = {
    "model_type": "gemma4_text",
    "hidden_size": 5376,
    "intermediate_size": 21504,
    "num_hidden_layers": 60,
    "num_attention_heads": 32,
    "num_key_value_heads": 16,
    "num_global_key_value_heads": 4,
    "head_dim": 256,
    "global_head_dim": 512,
    "attention_k_eq_v": True,
    "sliding_window": 1024,
    "vocab_size": 262144,
    "tie_word_embeddings": True,
    "max_position_embeddings": 262144,
}


@pytest.fixture
def read(tmp_path: Path) -> Callable[[dict[str, Any]], Architecture]:
    def reading(fields: dict[str, Any]) -> Architecture:
        file = tmp_path / "config.json"
        file.write_text(json.dumps(fields), encoding="utf-8")
        return load_architecture(str(file))

    return reading


Read = Callable[[dict[str, Any]], Architecture]


@pytest.mark.parametrize(
    ("changes", "context", "rotary_rows"),
    [
        ({}, 8192, None),
        ({"model_type": "cohere", "model_max_length": 131072}, 131072, None),
        ({"rope_scaling": {"factor": 2.0}}, 16384, None),
        ({"rope_scaling": {"type": "dynamic", "factor": None}}, 8192, None),
        (
            {"rope_scaling": {"type": "longrope"}, "original_max_position_embeddings": 4096},
            8192,
            8192 + 4096,
        ),
        ({"model_type": "gemma3_text", "rope_scaling": {"rope_type": "linear", "factor": 8.0}}, 8192, 9 * 8192),
        (
            {"model_type": "gemma3_text", "rope_parameters": {"full_attention": {"rope_type": "linear", "factor": 8}}},
            8192,
            9 * 8192,
        ),
        ({"model_type": "mpt", "attn_config": {"alibi": True}}, 8192, 0),
        ({"model_type": "falcon", "alibi": True}, 8192, 0),
    ],
)
def test_context_and_rows_of_the_rotary_tables(
    read: Read, changes: dict[str, Any], context: int, rotary_rows: int | None
) -> None:
    model = read({**BASE, **changes})
    assert (model.max_model_len, model.rotary_rows) == (context, rotary_rows)


def test_unknown_scaling_leaves_the_context_and_says_so(read: Read) -> None:
    model = read({**BASE, "rope_scaling": {"rope_type": "spiral", "factor": 4}})
    assert model.max_model_len == 8192
    assert any("spiral" in note for note in model.notes)


def test_windows_wider_than_the_context_are_none(read: Read) -> None:
    attention = read({**BASE, "model_type": "mistral", "sliding_window": 8192}).layers[0].attention
    assert isinstance(attention, Attention)
    assert attention.window is None


def test_gemma_4_has_fewer_and_wider_heads_in_full_layers(read: Read) -> None:
    gemma = read(GEMMA_4_31B)
    windowed, full = gemma.layers[0].attention, gemma.layers[5].attention
    assert isinstance(windowed, Attention)
    assert isinstance(full, Attention)
    assert (windowed.num_kv_heads, windowed.head_dim, windowed.value_is_key) == (16, 256, False)
    assert (full.num_kv_heads, full.head_dim, full.value_is_key) == (4, 512, True)
    assert gemma.rotary_rows == 3 * 262144
    assert count_parameters(gemma).total / 1e9 == pytest.approx(30.7, rel=0.01)


def test_gemma_4_may_have_a_dense_mlp_beside_its_experts(read: Read) -> None:
    sparse = {"enable_moe_block": True, "num_experts": 128, "top_k_experts": 8, "moe_intermediate_size": 704}
    gemma = read({**GEMMA_4_31B, **sparse, "intermediate_size": 2112})
    assert gemma.layers[0].mlp == MoeMlp(128, 8, 704, shared_intermediate_size=2112)
