"""Which tokens each layer of a Hugging Face config attends to: all, a sliding window, or a chunk."""

from __future__ import annotations

from servecast.configs.hf_config_families import Family
from servecast.configs.hf_config_fields import Decoder
from servecast.hardware.errors import ConfigError, did_you_mean

_FULL = ("full_attention", "attention", "global", "global_attention")
_WINDOWED = ("sliding_attention", "local", "local_attention", "sliding_window")
_CHUNKED = ("chunked_attention",)
# Fields that only models with recurrent or linear-attention layers have.
_HYBRID = (
    "full_attention_interval",
    "linear_attn_config",
    "attn_type_list",
    "mamba_d_state",
    "attn_layer_period",
    "layers_block_type",
    "hybrid_override_pattern",
    "block_types",
    "ssm_cfg",
    "state_size",
    "time_mix_extra_dim",
)


def read_windows(decoder: Decoder, layers: int, family: Family) -> tuple[int | None, ...]:
    """Tokens that each layer sees, None for all. Raises ConfigError for layers that keep no KV cache."""
    kinds = decoder.name_of("layer_types", "attention_layers")
    if kinds is not None:
        return tuple(_window_of(decoder, kinds, kind) for kind in decoder.listed(kinds, layers))
    _refuse_hybrid(decoder)
    if family.chunked:
        return _chunked(decoder, layers)
    if not decoder.has("sliding_window") or not decoder.flag("use_sliding_window", default=not family.window_switch):
        return (None,) * layers
    window = decoder.count("sliding_window")
    if family.window_switch:
        # Qwen 2: the first layers see all
        full = decoder.whole("max_window_layers", default=layers)
        return tuple(None if layer < full else window for layer in range(layers))
    return tuple(None if full else window for full in _full_layers(decoder, layers, family))


def _window_of(decoder: Decoder, key: str, kind: object) -> int | None:
    if kind in _FULL:
        return None
    if kind in _WINDOWED:
        # Qwen 2 and 3 list their layers and switch the window off in the same file
        used = decoder.flag("use_sliding_window", default=True)
        return decoder.count("sliding_window", "window_size") if used else None
    if kind in _CHUNKED:
        return decoder.count("attention_chunk_size")
    if isinstance(kind, str) and any(word in kind for word in ("linear", "mamba", "recurrent", "conv", "ssm")):
        raise _not_supported(decoder, key, f"{kind!r} layers keep a state per sequence in place of a KV cache")
    raise decoder.fields.error(key, f"unknown kind of layer {kind!r}", did_you_mean(str(kind), (*_FULL, *_WINDOWED)))


def _refuse_hybrid(decoder: Decoder) -> None:
    for key in _HYBRID:
        if decoder.has(key) and not (key == "full_attention_interval" and decoder.value(key) == 1):
            problem = "the model has recurrent or linear-attention layers, which keep a state in place of a KV cache"
            raise _not_supported(decoder, key, problem)
    if decoder.has("block_configs"):
        raise _not_supported(decoder, "block_configs", "layers with shapes of their own, or without attention")


def _not_supported(decoder: Decoder, key: str, problem: str) -> ConfigError:
    hint = "servecast models dense and mixture-of-experts decoders whose every layer has attention"
    return decoder.fields.error(key, f"not supported: {problem}", hint)


def _chunked(decoder: Decoder, layers: int) -> tuple[int | None, ...]:
    """Llama 4: layers with rotary embeddings see their chunk; those without, every fourth, see all."""
    if not decoder.has("attention_chunk_size"):
        return (None,) * layers
    chunk = decoder.count("attention_chunk_size")
    if decoder.value("no_rope_layers"):
        return tuple(chunk if rotary else None for rotary in decoder.listed("no_rope_layers", layers))
    period = decoder.count("no_rope_layer_interval", default=4)
    return tuple(None if (layer + 1) % period == 0 else chunk for layer in range(layers))


def _full_layers(decoder: Decoder, layers: int, family: Family) -> tuple[bool, ...]:
    """Whether each layer sees all tokens: by a pattern in the file, else as the family has it."""
    name = decoder.name_of("sliding_window_pattern", "_sliding_window_pattern")
    pattern = None if name is None else decoder.value(name)
    if isinstance(pattern, str) and pattern and set(pattern) <= {"L", "G"}:
        return tuple(pattern[layer % len(pattern)] == "G" for layer in range(layers))
    period = family.window_period if name is None else decoder.count(name)
    return tuple(period is not None and (layer + 1) % period == 0 for layer in range(layers))
