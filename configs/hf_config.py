"""From the fields of a Hugging Face config to an architecture: of a config.json, or of a catalogue entry."""

from __future__ import annotations

from servecast.configs.hf_config_attention import read_attention
from servecast.configs.hf_config_context import read_context
from servecast.configs.hf_config_families import UNSUPPORTED, Family, family_of
from servecast.configs.hf_config_fields import MOST_LAYERS, ConfigFields
from servecast.configs.hf_config_mlp import read_mlps
from servecast.configs.hf_config_quantization import read_quantization
from servecast.configs.hf_config_sections import LAYERS, language_sections
from servecast.configs.hf_config_vision import read_vision
from servecast.configs.hf_config_windows import read_windows
from servecast.model.architecture import Architecture, Layer

SUPPORTED = (
    "Supported: decoder-only transformers with multi-head, grouped-query or latent (MLA) attention, with or without "
    "sliding windows, and dense MLPs or experts"
)

_HIDDEN = ("hidden_size", "n_embd", "d_model")
_HALVES = ("bfloat16", "float16")

# Fields that mark what the simulator has no layer for.
_FOREIGN_FIELDS = {
    "linear_num_value_heads": "linear-attention layers",
    "linear_num_key_heads": "linear-attention layers",
    "linear_attn_config": "linear-attention layers",
    "full_attention_interval": "linear-attention layers",
    "mamba_d_state": "state-space layers",
    "mamba_num_heads": "state-space layers",
    "ssm_state_size": "state-space layers",
    "ssm_cfg": "state-space layers",
    "hybrid_override_pattern": "state-space layers",
    "layers_block_type": "layers of several kinds",
    "lru_width": "recurrent layers",
    "block_configs": "layers that each have a config of their own",
    "cross_attention_layers": "layers that attend to the image",
    "dense_attention_every_n_layers": "block-sparse attention",
    "compress_ratios": "compressed attention",
}
_FOREIGN_COUNTS = {
    "num_kv_shared_layers": "layers that share the KV cache of others",
    "hidden_size_per_layer_input": "embeddings for each layer",
}


def read_architecture(top: ConfigFields, key: str, name: str) -> Architecture:
    """The model that a config describes.

    What had to be assumed stands in the architecture's notes. Raises ConfigError, with file, line and field, if a
    field is missing or wrong, or stands for something that is not supported.
    """
    sections = language_sections(top)
    fields = sections[0]
    family = _family(sections)
    _refuse_foreign(top, fields)
    if fields is not top:
        fields = _with_defaults(fields, family)
    hidden_size = fields.count(*_HIDDEN)
    max_model_len, rotary_rows = read_context(fields, family)
    layers = _layers(fields, family, hidden_size, max_model_len)
    return Architecture(
        key=key,
        name=name,
        hidden_size=hidden_size,
        vocab_size=_vocab_size(fields, sections),
        tied_embeddings=_tied(sections, family),
        layers=layers,
        max_model_len=max_model_len,
        position_embeddings=_position_rows(fields, family, max_model_len),
        final_norms=family.final_norms,
        rotary_rows=rotary_rows,
        vision=read_vision(top, hidden_size),
        quantization=read_quantization(sections, layers),
        head_bias=fields.flag("lm_head_bias", default=family.head_bias),
        dtype=_dtype(sections),
        notes=tuple(top.notes),
    )


def _family(sections: tuple[ConfigFields, ...]) -> Family:
    """By the innermost model type that is known. Unknown ones are read like Llama, with a note."""
    types = [section.text("model_type") for section in sections]
    for section, model_type in zip(sections, types, strict=True):
        if model_type in UNSUPPORTED:
            problem = f"{model_type!r} is not supported: it has {UNSUPPORTED[model_type]}"
            raise section.error("model_type", problem, SUPPORTED)
        family = family_of(model_type)
        if family is not None:
            return family
    fields = sections[0]
    family = _family_of_class(fields)
    if family is not None:
        return family
    called = next(filter(None, types), "")
    which = f"model_type {called!r} is not known" if called else "there is no model_type"
    fields.note(f"{which}: read like Llama (gated MLP, RMSNorm, no biases, head apart from the embedding)")
    return Family()


def _family_of_class(fields: ConfigFields) -> Family | None:
    """By the class that computes the model: `Qwen2ForCausalLM` is of family qwen2."""
    classes = [name for name in fields.items("architectures") if isinstance(name, str)]
    named = (family_of(name.removesuffix("ForCausalLM")) for name in classes if name.endswith("ForCausalLM"))
    return next((family for family in named if family is not None), None)


def _refuse_foreign(top: ConfigFields, fields: ConfigFields) -> None:
    for name, what in _FOREIGN_FIELDS.items():
        if fields.values.get(name):
            raise fields.error(name, f"{what} are not supported", SUPPORTED)
    for name, what in _FOREIGN_COUNTS.items():
        if fields.count(name, default=0, least=0):
            raise fields.error(name, f"{what} are not supported", SUPPORTED)
    if top.flag("is_encoder_decoder"):
        raise top.error("is_encoder_decoder", "models with an encoder are not supported", SUPPORTED)


def _with_defaults(fields: ConfigFields, family: Family) -> ConfigFields:
    """Nested text models often state only what differs from their library's defaults."""
    missing = {name: size for name, size in family.sizes.items() if name not in fields.values}
    if fields.find(*_HIDDEN) is None or fields.find(*LAYERS) is None or fields.find("num_attention_heads") is None:
        for name, size in missing.items():
            fields.note(f"{name} is not stated: {size}, the default of {fields.text('model_type')}")
        values = {**missing, **fields.values}
        return ConfigFields(fields.file, fields.path, values, fields.line_of, fields.notes)
    return fields


def _layers(fields: ConfigFields, family: Family, hidden_size: int, max_model_len: int) -> tuple[Layer, ...]:
    count = fields.count(*LAYERS)
    if count > MOST_LAYERS:
        name = fields.find(*LAYERS) or LAYERS[0]
        raise fields.error(name, f"{count} layers are more than any model has")
    windows = tuple(
        window if window is not None and window < max_model_len else None
        for window in read_windows(fields, count, family)
    )
    attention = read_attention(fields, hidden_size, windows, family)
    mlps = read_mlps(fields, count, hidden_size, family)
    norms = _norms(fields, family)
    return tuple(Layer(one, mlp, norms) for one, mlp in zip(attention, mlps, strict=True))


def _norms(fields: ConfigFields, family: Family) -> int:
    """Falcons that compute attention and MLP side by side have one LayerNorm in place of two, but not the newer."""
    parallel = fields.flag("parallel_attn", default=family.parallel)
    newer = fields.flag("new_decoder_architecture")
    return family.norms // 2 if parallel and not newer else family.norms


def _position_rows(fields: ConfigFields, family: Family, max_model_len: int) -> int:
    """Rows of a learned position table; MPT says whether it has one."""
    if family.positions_offset is not None:
        return max_model_len + family.positions_offset
    inner = fields.section("attn_config")
    alibi = inner is not None and inner.flag("alibi")
    return max_model_len if fields.flag("learned_pos_emb") and not alibi else 0


def _vocab_size(fields: ConfigFields, sections: tuple[ConfigFields, ...]) -> int:
    """Some multimodal configs state it outside the text section only; `fields` has the defaults as well."""
    stated = next((section for section in sections if section.find("vocab_size") is not None), fields)
    return stated.count("vocab_size", "padded_vocab_size")


def _tied(sections: tuple[ConfigFields, ...], family: Family) -> bool:
    for section in sections:
        if section.find("tie_word_embeddings") is not None:
            return section.flag("tie_word_embeddings")
    how = "tied" if family.tied else "not tied"
    sections[0].note(f"tie_word_embeddings is not stated: head and embedding are taken as {how}, the library's default")
    return family.tied


def _dtype(sections: tuple[ConfigFields, ...]) -> str:
    """The 16-bit type in which the engine holds what is not quantised; it casts 32-bit checkpoints."""
    for section in sections:
        stated = section.text("dtype", "torch_dtype").removeprefix("torch.")
        if stated in _HALVES:
            return stated
        if stated:
            section.note(f"{stated} weights are held as bfloat16")
            return "bfloat16"
    return "bfloat16"
