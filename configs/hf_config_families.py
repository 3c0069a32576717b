"""What a Hugging Face config leaves to the model family: biases, norms, tied embeddings, which layers have a window.

Source: the configuration and modelling classes of Hugging Face transformers 4.57 and 5, by `model_type`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Family:
    """Defaults of one `model_type`; a field of the config that says otherwise goes first.

    tied: embeddings and head are one table. norms, final_norms: vectors of hidden_size in a layer and after the last.
    gated: the MLP has three matrices. qkv_bias, output_bias, mlp_bias, head_bias: which matrices have one; with
    output_follows `attention_bias` speaks of the output too. positions_offset: rows of the learned position table
    beyond the context, None without such a table. window_period: every so-manieth layer has full attention, the others
    a window; None: all layers have it. window_switch: a window only counts with `use_sliding_window: true`.
    two_rotary_tables: full layers have one of their own. alibi: there are no cos/sin tables. chunked: layers alternate
    between chunks and full attention. parallel: attention and MLP of a layer share one norm. multi_query: one KV head
    unless the config denies it. context: where the config does not say. sizes: what the library takes for fields that
    a nested text model leaves out.
    """

    tied: bool = False
    norms: int = 2
    final_norms: int = 1
    gated: bool = True
    qkv_bias: bool = False
    output_bias: bool = False
    output_follows: bool = True
    mlp_bias: bool = False
    head_bias: bool = False
    qk_norm: bool = False
    positions_offset: int | None = None
    window_period: int | None = None
    window_switch: bool = False
    two_rotary_tables: bool = False
    alibi: bool = False
    chunked: bool = False
    parallel: bool = False
    multi_query: bool = False
    context: int | None = None
    sizes: Mapping[str, int] = field(default_factory=dict)


_LLAMA_SIZES = {
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "max_position_embeddings": 2048,
    "vocab_size": 32000,
}
_MISTRAL_SIZES = {
    **_LLAMA_SIZES,
    "intermediate_size": 14336,
    "num_key_value_heads": 8,
    "max_position_embeddings": 131072,
    "sliding_window": 4096,
}
_QWEN2_SIZES = {
    **_LLAMA_SIZES,
    "intermediate_size": 22016,
    "num_key_value_heads": 32,
    "max_position_embeddings": 32768,
    "vocab_size": 151936,
}
_GEMMA3_SIZES = {
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "head_dim": 256,
    "max_position_embeddings": 131072,
    "vocab_size": 262208,
    "sliding_window": 4096,
}

_LLAMA = Family()
_QWEN2 = Family(qkv_bias=True, output_follows=False, window_switch=True, sizes=_QWEN2_SIZES)
_QWEN3 = Family(qk_norm=True, window_switch=True)
_GEMMA2 = Family(tied=True, norms=4, window_period=2)
_GEMMA3 = replace(_GEMMA2, qk_norm=True, window_period=6, two_rotary_tables=True, sizes=_GEMMA3_SIZES)
_GPT2 = Family(
    tied=True,
    norms=4,
    final_norms=2,
    gated=False,
    qkv_bias=True,
    output_bias=True,
    mlp_bias=True,
    positions_offset=0,
)
_NEOX = replace(_GPT2, tied=False, positions_offset=None)
_GLM = Family(qkv_bias=True, output_follows=False)

_FAMILIES = {
    **dict.fromkeys(
        (
            *("mixtral", "yi", "aquila", "internlm2", "internlm3", "baichuan", "phi3", "granite", "granitemoe"),
            *("granitemoeshared", "deepseek", "deepseek_v2", "deepseek_v3", "deepseek_v32", "kimi_k2", "glm_moe_dsa"),
            *("glm4_moe_lite", "dbrx", "hunyuan_v1_dense"),
        ),
        _LLAMA,
    ),
    "llama": Family(sizes=_LLAMA_SIZES),
    "mistral": Family(sizes=_MISTRAL_SIZES),
    "ministral": _LLAMA,
    "ministral3": _LLAMA,
    "exaone4": Family(qk_norm=True, window_period=4),
    "seed_oss": _GLM,
    "minimax_m2": Family(qk_norm=True),
    "ernie4_5": Family(tied=True),
    "ernie4_5_moe": Family(tied=True),
    "olmo3": Family(qk_norm=True, window_period=4),
    "qwen2": _QWEN2,
    "qwen2_moe": _QWEN2,
    "qwen3": _QWEN3,
    "qwen3_moe": _QWEN3,
    "gemma": Family(tied=True),
    "gemma2": _GEMMA2,
    "gemma3": _GEMMA3,
    "gemma4": replace(_GEMMA3, sizes={**_GEMMA3_SIZES, "num_hidden_layers": 30, "vocab_size": 262144}),
    "gpt_oss": Family(qkv_bias=True, output_bias=True, mlp_bias=True, window_period=2),
    "llama4": Family(chunked=True),
    "cohere": Family(tied=True, norms=1),
    "cohere2": Family(tied=True, norms=1, window_period=4),
    "olmo": Family(norms=0, final_norms=0),
    "olmo2": Family(qk_norm=True),
    "olmoe": Family(qk_norm=True),
    "smollm3": Family(tied=True),
    "chatglm": _GLM,
    "glm": _GLM,
    "glm4": replace(_GLM, norms=4),
    "glm4_moe": _GLM,
    "stablelm": Family(norms=4, final_norms=2, output_follows=False),
    "phimoe": Family(norms=4, final_norms=2, qkv_bias=True, output_bias=True, head_bias=True),
    "phi": replace(_NEOX, norms=2, head_bias=True),
    "gpt2": _GPT2,
    "opt": replace(_GPT2, positions_offset=2),
    "gpt_neo": replace(_GPT2, qkv_bias=False),
    "gpt_bigcode": replace(_GPT2, multi_query=True),
    "gpt_neox": _NEOX,
    "gptj": replace(_NEOX, norms=2, qkv_bias=False, output_bias=False, head_bias=True),
    "bloom": replace(_GPT2, final_norms=4, positions_offset=None, alibi=True, context=2048),
    "starcoder2": replace(_NEOX, tied=True),
    "mpt": Family(tied=True, gated=False),
    "falcon": Family(tied=True, norms=4, final_norms=2, gated=False, parallel=True, multi_query=True, context=2048),
    "nemotron": Family(norms=4, final_norms=2, gated=False),
}

_SAME_AS = {
    "qwen2_vl": "qwen2",
    "qwen2_5_vl": "qwen2",
    "qwen2_5_omni": "qwen2",
    "qwen3_vl": "qwen3",
    "qwen3_vl_moe": "qwen3_moe",
    "refinedweb": "falcon",
    "refinedwebmodel": "falcon",
    "phi-msft": "phi",
    "phi3small": "phi3",
    "phi4mm": "phi3",
}


# Text models that look like a decoder and are none that the simulator has layers for.
UNSUPPORTED = {
    **dict.fromkeys(("mamba", "mamba2", "falcon_mamba", "rwkv", "xlstm"), "state-space layers in place of attention"),
    **dict.fromkeys(
        ("jamba", "bamba", "zamba", "zamba2", "falcon_h1", "nemotron_h", "lfm2"), "state-space layers among others"
    ),
    **dict.fromkeys(("qwen3_next", "kimi_linear", "minimax", "minimax_text_01"), "linear-attention layers"),
    "recurrent_gemma": "recurrent layers",
    "gemma3n": "embeddings for each layer, and layers that share the KV cache of others",
    "mllama": "layers that attend to the image",
    **dict.fromkeys(("t5", "bart", "whisper", "bert", "roberta"), "an encoder"),
}


def family_of(model_type: str) -> Family | None:
    """The defaults of `model_type`, or of a class name such as Qwen2Moe; None if it is not known."""
    name = model_type.lower().removesuffix("_text")
    name = _SAME_AS.get(name, name)
    return _FAMILIES.get(name) or _BY_CLASS.get(name)


_BY_CLASS = {name.replace("_", ""): family for name, family in _FAMILIES.items()}
