"""First version of the model catalogue; superseded at once."""

from __future__ import annotations

import json
from pathlib import Path

from servecast.hardware.errors import ConfigError, did_you_mean
from servecast.model.architecture import Architecture, Attention, DenseMlp, Layer

F = Path("/work/shared/data/facts/models")


def model_keys() -> list[str]:
    return sorted(f.stem.lower() for f in F.glob("*.json"))


def load_architecture(key_or_path: str, base_dir: Path | None = None) -> Architecture:
    for f in F.glob("*.json"):
        if f.stem.lower() == key_or_path:
            c = json.loads(f.read_text())
            h = c["num_attention_heads"]
            hd = c.get("head_dim") or c["hidden_size"] // h
            layer = Layer(
                Attention(h, c.get("num_key_value_heads") or h, hd, qk_norm=c["model_type"] == "qwen3"),
                DenseMlp(c["intermediate_size"]),
            )
            return Architecture(
                key_or_path,
                f.stem,
                c["hidden_size"],
                c["vocab_size"],
                c.get("tie_word_embeddings", False),
                (layer,) * c["num_hidden_layers"],
                c["max_position_embeddings"],
            )
    raise ConfigError(f"unknown model {key_or_path!r}", hint=did_you_mean(key_or_path, model_keys()))
