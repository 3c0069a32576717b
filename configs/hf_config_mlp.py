"""The MLP of each layer, from a Hugging Face config: dense, or experts in all, some or every so-manieth layer."""

from __future__ import annotations

from servecast.configs.hf_config_families import Family
from servecast.configs.hf_config_fields import ConfigFields
from servecast.model.architecture import DenseMlp, MoeMlp

_WIDTH = ("intermediate_size", "n_inner", "ffn_dim", "ffn_hidden_size", "ffn_embed_dim")
_EXPERTS = ("n_routed_experts", "num_local_experts", "num_experts", "moe_num_experts")
_PER_TOKEN = (
    "num_experts_per_tok",
    "num_experts_per_token",
    "experts_per_token",
    "moe_topk",
    "moe_top_k",
    "moe_k",
    "top_k_experts",
)
_EXPERT_WIDTH = ("moe_intermediate_size", "expert_intermediate_size", *_WIDTH)


def read_mlps(fields: ConfigFields, layers: int, hidden_size: int, family: Family) -> tuple[DenseMlp | MoeMlp, ...]:
    """One entry a layer."""
    fields = fields.section("ffn_config") or fields
    bias = fields.flag("mlp_bias", "bias", "use_bias", "enable_bias", default=family.mlp_bias)
    sparse = _sparse_layers(fields, layers)
    moe = _moe(fields, family, bias) if any(sparse) else None
    widths = (0,) * layers if all(sparse) else _dense_widths(fields, layers, hidden_size, family)
    return tuple(
        moe if moe is not None and is_sparse else DenseMlp(width, family.gated, bias)
        for is_sparse, width in zip(sparse, widths, strict=True)
    )


def _dense_widths(fields: ConfigFields, layers: int, hidden_size: int, family: Family) -> tuple[int, ...]:
    """Four times the hidden size where an older config has none."""
    if fields.find("intermediate_size_mlp") is not None:
        # Llama 4: intermediate_size is that of an expert
        return fields.per_layer(layers, "intermediate_size_mlp")
    ratio = fields.count("expansion_ratio", default=4)
    return fields.per_layer(layers, *_WIDTH, default=None if family.gated else ratio * hidden_size)


def _moe(fields: ConfigFields, family: Family, bias: bool) -> MoeMlp:
    experts, used = fields.count(*_EXPERTS), fields.count(*_PER_TOKEN)
    if used > experts:
        key = fields.find(*_PER_TOKEN) or _PER_TOKEN[0]
        raise fields.error(key, f"must be at most the {experts} experts, found {used}")
    width = fields.count(*_EXPERT_WIDTH)
    shared = width if family.chunked else 0
    if fields.find("shared_expert_intermediate_size", "shared_intermediate_size") is not None:
        shared = fields.count("shared_expert_intermediate_size", "shared_intermediate_size", default=0, least=0)
    elif fields.flag("enable_moe_block"):
        # Gemma 4: a dense MLP beside the experts
        shared = fields.count(*_WIDTH)
    elif fields.find("n_shared_experts", "num_shared_experts", "moe_num_shared_experts") is not None:
        shared = width * fields.count(
            "n_shared_experts", "num_shared_experts", "moe_num_shared_experts", default=0, least=0
        )
    return MoeMlp(experts, used, width, shared, gated=True, bias=bias)


def _sparse_layers(fields: ConfigFields, layers: int) -> tuple[bool, ...]:
    """Whether each layer has experts."""
    if fields.count(*_EXPERTS, default=0, least=0) == 0:
        return (False,) * layers
    if fields.find("mlp_layer_types") is not None:
        return tuple(kind == "sparse" for kind in fields.listed("mlp_layer_types", layers))
    chosen = {fields.whole("moe_layers", item, least=0) for item in fields.items("moe_layers")}
    if chosen:
        return tuple(layer in chosen for layer in range(layers))
    if isinstance(fields.get("moe_layer_freq"), list):
        return tuple(bool(item) for item in fields.listed("moe_layer_freq", layers))
    dense_first = fields.count("first_k_dense_replace", "moe_layer_start_index", "num_dense_layers", default=0, least=0)
    dense = {fields.whole("mlp_only_layers", item, least=0) for item in fields.items("mlp_only_layers")}
    every = fields.count("moe_layer_freq", default=1)
    step = fields.count("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_interval", default=1)
    return tuple(
        layer >= dense_first and layer not in dense and layer % every == 0 and (layer + 1) % step == 0
        for layer in range(layers)
    )
