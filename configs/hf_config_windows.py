"""Which tokens each layer of a Hugging Face config attends to: all, a sliding window, or a chunk."""

from __future__ import annotations

from servecast.configs.hf_config_families import Family
from servecast.configs.hf_config_fields import ConfigFields
from servecast.hardware.errors import did_you_mean

_FULL = ("full_attention", "attention", "global", "global_attention")
_WINDOWED = ("sliding_attention", "local", "local_attention", "sliding_window")
_CHUNKED = ("chunked_attention",)


def read_windows(fields: ConfigFields, layers: int, family: Family) -> tuple[int | None, ...]:
    """Tokens that each layer sees, None for all. Raises ConfigError for layers that keep no KV cache."""
    kinds = fields.find("layer_types", "attention_layers")
    if kinds is not None:
        return tuple(_window_of(fields, kinds, kind) for kind in fields.listed(kinds, layers))
    if family.chunked:
        return _chunked(fields, layers)
    if not fields.count("sliding_window", default=0, least=0) or not fields.flag(
        "use_sliding_window", default=not family.window_switch
    ):
        return (None,) * layers
    window = fields.count("sliding_window")
    if family.window_switch:
        # Qwen 2: the first layers see all
        full = fields.count("max_window_layers", default=layers, least=0)
        return tuple(None if layer < full else window for layer in range(layers))
    return tuple(None if full else window for full in _full_layers(fields, layers, family))


def _window_of(fields: ConfigFields, key: str, kind: object) -> int | None:
    if kind in _FULL:
        return None
    if kind in _WINDOWED:
        # Qwen 2 and 3 list their layers and switch the window off in the same file
        used = fields.flag("use_sliding_window", default=True)
        return fields.count("sliding_window", "window_size") if used else None
    if kind in _CHUNKED:
        return fields.count("attention_chunk_size")
    if isinstance(kind, str) and any(word in kind for word in ("linear", "mamba", "recurrent", "conv", "ssm")):
        problem = f"{kind!r} layers are not supported: they keep a state per sequence in place of a KV cache"
        raise fields.error(key, problem)
    raise fields.error(key, f"unknown kind of layer {kind!r}", did_you_mean(str(kind), (*_FULL, *_WINDOWED)))


def _chunked(fields: ConfigFields, layers: int) -> tuple[int | None, ...]:
    """Llama 4: layers with rotary embeddings see their chunk; those without, every fourth, see all."""
    if fields.find("attention_chunk_size") is None:
        return (None,) * layers
    chunk = fields.count("attention_chunk_size")
    if fields.get("no_rope_layers"):
        return tuple(chunk if rotary else None for rotary in fields.listed("no_rope_layers", layers))
    period = fields.count("no_rope_layer_interval", default=4)
    return tuple(None if (layer + 1) % period == 0 else chunk for layer in range(layers))


def _full_layers(fields: ConfigFields, layers: int, family: Family) -> tuple[bool, ...]:
    """Whether each layer sees all tokens: by a pattern in the file, else as the family has it."""
    name = fields.find("sliding_window_pattern", "_sliding_window_pattern")
    pattern = None if name is None else fields.get(name)
    if isinstance(pattern, str) and pattern and set(pattern) <= {"L", "G"}:
        return tuple(pattern[layer % len(pattern)] == "G" for layer in range(layers))
    period = family.window_period if name is None else fields.count(name)
    return tuple(period is not None and (layer + 1) % period == 0 for layer in range(layers))
