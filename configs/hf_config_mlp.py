"""The MLP of each layer, from a Hugging Face config: dense, or experts in all, some or every so-manieth layer."""

from __future__ import annotations

from servecast.configs.hf_config_families import Family
from servecast.configs.hf_config_fields import Decoder, whole_number
from servecast.model.architecture import DenseMlp, MoeMlp

_WIDTH = ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "ffn_embed_dim")
_EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
_PER_TOKEN = ("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk", "moe_top_k", "moe_k")
_EXPERT_WIDTH = ("moe_intermediate_size", "expert_intermediate_size", *_WIDTH)


def read_mlp(decoder: Decoder, layers: int, hidden_size: int, family: Family) -> tuple[DenseMlp | MoeMlp, ...]:
    """One entry a layer."""
    if decoder.has("ffn_config"):
        decoder = decoder.part("ffn_config")
    bias = decoder.flag("mlp_bias", "bias", "use_bias", "enable_bias", default=family.mlp_bias)
    sparse = _sparse_layers(decoder, layers)
    moe = _moe(decoder, family, bias) if any(sparse) else None
    widths = (0,) * layers if all(sparse) else _dense_widths(decoder, layers, hidden_size, family)
    return tuple(
        moe if moe is not None and is_sparse else DenseMlp(width, family.gated, bias)
        for is_sparse, width in zip(sparse, widths, strict=True)
    )


def _dense_widths(decoder: Decoder, layers: int, hidden_size: int, family: Family) -> tuple[int, ...]:
    """Four times the hidden size where an older config has none."""
    if decoder.has("intermediate_size_mlp"):
        # Llama 4: intermediate_size is that of an expert
        return decoder.per_layer(layers, "intermediate_size_mlp")
    ratio = decoder.count("expansion_ratio", default=4)
    return decoder.per_layer(layers, *_WIDTH, default=None if family.gated else ratio * hidden_size)


def _moe(decoder: Decoder, family: Family, bias: bool) -> MoeMlp:
    experts, used = decoder.count(*_EXPERTS), decoder.count(*_PER_TOKEN)
    if used > experts:
        key = decoder.name_of(*_PER_TOKEN) or _PER_TOKEN[0]
        raise decoder.fields.error(key, f"must be at most the {experts} experts, found {used}")
    width = decoder.count(*_EXPERT_WIDTH)
    shared = width if family.chunked else 0
    if decoder.has("shared_expert_intermediate_size", "shared_intermediate_size"):
        shared = decoder.whole("shared_expert_intermediate_size", "shared_intermediate_size")
    elif decoder.has("n_shared_experts", "num_shared_experts", "moe_num_shared_experts"):
        shared = width * decoder.whole("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
    return MoeMlp(experts, used, width, shared, gated=True, bias=bias)


def _sparse_layers(decoder: Decoder, layers: int) -> tuple[bool, ...]:
    """Whether each layer has experts."""
    if decoder.whole(*_EXPERTS) == 0:
        return (False,) * layers
    if decoder.value("moe_layers"):
        chosen = {whole_number(decoder.fields, "moe_layers", item) for item in decoder.value("moe_layers")}
        return tuple(layer in chosen for layer in range(layers))
    if isinstance(decoder.value("moe_layer_freq"), list):
        return tuple(bool(item) for item in decoder.listed("moe_layer_freq", layers))
    dense_first = decoder.whole("first_k_dense_replace", "moe_layer_start_index", "num_dense_layers")
    dense = set(decoder.value("mlp_only_layers") or ())
    every = decoder.count("moe_layer_freq", default=1)
    step = decoder.count("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval", default=1)
    return tuple(
        layer >= dense_first and layer not in dense and layer % every == 0 and (layer + 1) % step == 0
        for layer in range(layers)
    )
