"""The attention of each layer, from a Hugging Face config: heads, their size, biases, windows, or a latent."""

from __future__ import annotations

from servecast.configs.hf_config_families import Family
from servecast.configs.hf_config_fields import ConfigFields
from servecast.model.architecture import Attention, LatentAttention

_HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads")
_KV_HEADS = ("num_key_value_heads", "num_kv_heads", "n_head_kv", "kv_n_heads")
_HEAD_DIM = ("head_dim", "kv_channels", "attention_head_dim")


def read_attention(
    fields: ConfigFields, hidden_size: int, windows: tuple[int | None, ...], family: Family
) -> tuple[Attention | LatentAttention, ...]:
    """One entry for each of `windows`, the tokens that a layer sees. Raises ConfigError if heads do not divide."""
    layers = len(windows)
    if fields.find("kv_lora_rank") is not None:
        return (_latent(fields),) * layers
    heads = fields.per_layer(layers, *_HEADS)
    kv_heads = _kv_heads(fields, heads, family)
    sizes = _head_dims(fields, heads, hidden_size)
    qkv_bias, output_bias = _biases(fields, family)
    # Llama 4 norms without weights
    qk_norm = family.qk_norm or (fields.flag("use_qk_norm", default=False) and not family.chunked)
    entries = []
    for layer, window in enumerate(windows):
        size, kv = sizes[layer], kv_heads[layer]
        if window is None:
            # Gemma 4: full layers have fewer and larger heads
            size = fields.count("global_head_dim", default=size)
            kv = fields.count("num_global_key_value_heads", default=kv)
        if heads[layer] % kv:
            key = fields.find(*_KV_HEADS) or _KV_HEADS[0]
            raise fields.error(key, f"must divide the {heads[layer]} attention heads, found {kv}")
        one_matrix = window is None and fields.flag("attention_k_eq_v")
        entries.append(Attention(heads[layer], kv, size, window, qkv_bias, output_bias, qk_norm, one_matrix))
    return tuple(entries)


def _latent(fields: ConfigFields) -> LatentAttention:
    return LatentAttention(
        num_heads=fields.count(*_HEADS),
        q_lora_rank=fields.count("q_lora_rank") if fields.find("q_lora_rank") is not None else None,
        kv_lora_rank=fields.count("kv_lora_rank"),
        rope_head_dim=fields.count("qk_rope_head_dim"),
        nope_head_dim=fields.count("qk_nope_head_dim"),
        v_head_dim=fields.count("v_head_dim"),
        index_heads=fields.count("index_n_heads", default=0, least=0),
        index_head_dim=fields.count("index_head_dim", default=0, least=0),
        index_topk=fields.count("index_topk", default=0, least=0),
    )


def _kv_heads(fields: ConfigFields, heads: tuple[int, ...], family: Family) -> tuple[int, ...]:
    """Multi-head where the file has none, or null; one for all queries with the older `multi_query`."""
    layers = len(heads)
    if fields.flag("multi_query_attention", default=False):
        return (fields.count("multi_query_group_num"),) * layers
    named = fields.find(*_KV_HEADS) is not None
    one = fields.flag("multi_query", default=family.multi_query and not named)
    if one and not fields.flag("new_decoder_architecture", default=False):
        return (1,) * layers
    inner = fields if named else fields.section("attn_config")
    if inner is None or inner.find(*_KV_HEADS) is None:
        return heads
    return inner.per_layer(layers, *_KV_HEADS)


def _head_dims(fields: ConfigFields, heads: tuple[int, ...], hidden_size: int) -> tuple[int, ...]:
    """As given, which need not be hidden_size / heads; derived where it is missing."""
    if fields.find(*_HEAD_DIM) is not None:
        return fields.per_layer(len(heads), *_HEAD_DIM)
    for count in heads:
        if hidden_size % count:
            key = fields.find(*_HEADS) or _HEADS[0]
            problem = f"{count} heads do not divide the hidden size {hidden_size}, and head_dim is missing"
            raise fields.error(key, problem)
    return tuple(hidden_size // count for count in heads)


def _biases(fields: ConfigFields, family: Family) -> tuple[bool, bool]:
    """Whether Q, K and V have a bias, and whether the output has."""
    name = fields.find("attention_bias", "bias", "use_bias", "enable_bias")
    if name is not None:
        bias = fields.flag(name, default=False)
        return bias, bias and family.output_follows
    qkv = fields.flag("use_qkv_bias", "qkv_bias", "add_qkv_bias", default=family.qkv_bias)
    return qkv, family.output_bias
