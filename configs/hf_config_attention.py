"""The attention of each layer, from a Hugging Face config: heads, their size, biases, windows, or a latent."""

from __future__ import annotations

from servecast.configs.hf_config_families import Family
from servecast.configs.hf_config_fields import Decoder
from servecast.configs.hf_config_windows import read_windows
from servecast.model.architecture import Attention, LatentAttention

_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "kv_n_heads")
_HEAD_DIM = ("head_dim", "kv_channels", "attention_head_dim")


def read_attention(
    decoder: Decoder, layers: int, hidden_size: int, family: Family
) -> tuple[Attention | LatentAttention, ...]:
    """One entry a layer. Raises ConfigError for heads that do not divide, and for layers without a KV cache."""
    windows = read_windows(decoder, layers, family)
    if decoder.has("kv_lora_rank"):
        return (_latent(decoder),) * layers
    heads = decoder.per_layer(layers, *_HEADS)
    kv_heads = _kv_heads(decoder, heads, family)
    sizes = _head_dims(decoder, heads, hidden_size)
    qkv_bias, output_bias = _biases(decoder, family)
    # Llama 4 norms without weights
    qk_norm = family.qk_norm or (decoder.flag("use_qk_norm", default=False) and not family.chunked)
    entries = []
    for layer, window in enumerate(windows):
        size, kv = sizes[layer], kv_heads[layer]
        if window is None:
            # Gemma 4: full layers have fewer and larger heads
            size = decoder.count("global_head_dim", default=size)
            kv = decoder.count("num_global_key_value_heads", default=kv)
        if heads[layer] % kv:
            key = decoder.name_of(*_KV_HEADS) or _KV_HEADS[0]
            raise decoder.fields.error(key, f"must divide the {heads[layer]} attention heads, found {kv}")
        entries.append(Attention(heads[layer], kv, size, window, qkv_bias, output_bias, qk_norm))
    return tuple(entries)


def _latent(decoder: Decoder) -> LatentAttention:
    return LatentAttention(
        num_heads=decoder.count(*_HEADS),
        q_lora_rank=decoder.count("q_lora_rank") if decoder.has("q_lora_rank") else None,
        kv_lora_rank=decoder.count("kv_lora_rank"),
        rope_head_dim=decoder.count("qk_rope_head_dim"),
        nope_head_dim=decoder.count("qk_nope_head_dim"),
        v_head_dim=decoder.count("v_head_dim"),
        index_heads=decoder.whole("index_n_heads"),
        index_head_dim=decoder.whole("index_head_dim"),
        index_topk=decoder.whole("index_topk"),
    )


def _kv_heads(decoder: Decoder, heads: tuple[int, ...], family: Family) -> tuple[int, ...]:
    """Multi-head where the file has none, or null; one for all queries with the older `multi_query`."""
    layers = len(heads)
    if decoder.flag("multi_query_attention", default=False):
        return (decoder.count("multi_query_group_num"),) * layers
    named = decoder.has(*_KV_HEADS)
    one = decoder.flag("multi_query", default=family.multi_query and not named)
    if one and not decoder.flag("new_decoder_architecture", default=False):
        return (1,) * layers
    if not named and decoder.has("attn_config"):
        decoder = decoder.part("attn_config")
        named = decoder.has(*_KV_HEADS)
    return decoder.per_layer(layers, *_KV_HEADS) if named else heads


def _head_dims(decoder: Decoder, heads: tuple[int, ...], hidden_size: int) -> tuple[int, ...]:
    """As given, which need not be hidden_size / heads; derived where it is missing."""
    if decoder.has(*_HEAD_DIM):
        return decoder.per_layer(len(heads), *_HEAD_DIM)
    for count in heads:
        if hidden_size % count:
            key = decoder.name_of(*_HEADS) or _HEADS[0]
            problem = f"{count} heads do not divide the hidden size {hidden_size}, and head_dim is missing"
            raise decoder.fields.error(key, problem)
    return tuple(hidden_size // count for count in heads)


def _biases(decoder: Decoder, family: Family) -> tuple[bool, bool]:
    """Whether Q, K and V have a bias, and whether the output has."""
    name = decoder.name_of("attention_bias", "bias", "use_bias", "enable_bias")
    if name is not None:
        bias = decoder.flag(name, default=False)
        return bias, bias and family.output_follows
    qkv = decoder.flag("use_qkv_bias", "qkv_bias", "add_qkv_bias", default=family.qkv_bias)
    return qkv, family.output_bias
