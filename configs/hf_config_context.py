"""How many tokens of context a Hugging Face config allows, and the rows of its position tables."""

from __future__ import annotations

from dataclasses import dataclass

from servecast.configs.hf_config_families import Family
from servecast.configs.hf_config_fields import Decoder

_LENGTHS = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_sequence_length",
    "max_seq_length",
    "n_ctx",
)
# Stretch the trained context; the config holds the length before.
_MULTIPLY = ("linear", "dynamic", "ntk", "yarn", "deepseek_yarn")
# The config holds the length after.
_ALREADY = ("default", "llama3", "longrope", "su", "mrope", "proportional")


@dataclass(frozen=True)
class Context:
    """max_model_len: tokens. position_rows: of a learned table, 0 without one. rotary_rows: as in Architecture."""

    max_model_len: int
    position_rows: int = 0
    rotary_rows: int | None = None
    notes: tuple[str, ...] = ()


def read_context(decoder: Decoder, model_type: str, family: Family) -> Context:
    """The usable context, `rope_scaling` included, as the engine derives it.

    Source: vLLM 0.19, model configuration: linear, dynamic and yarn multiply; llama3 and longrope do not.
    """
    written = decoder.count(*_LENGTHS, default=family.context)
    if family.positions_offset is not None:
        return Context(written, position_rows=written + family.positions_offset)
    rope = _rope(decoder)
    kind = str(rope.value("rope_type", "type") or "default")
    if model_type.startswith("gemma3"):
        # the length in the file is stretched already; the two kinds of layers have a table each, one stretched
        factor = rope.fields.number("factor") if kind in _MULTIPLY else 1.0
        return Context(written, rotary_rows=int(written * factor) + written)
    if kind in _MULTIPLY:
        base = rope.count("original_max_position_embeddings", default=written) if "yarn" in kind else written
        return Context(int(base * rope.fields.number("factor")))
    if kind in _ALREADY:
        return Context(written)
    return Context(written, notes=(f"rope type {kind!r} is not known: context as max_position_embeddings has it",))


def _rope(decoder: Decoder) -> Decoder:
    """The mapping that says how positions are scaled: under the older or the newer name, for full attention."""
    rope = decoder.part(decoder.name_of("rope_scaling", "rope_parameters") or "rope_scaling")
    return rope.part("full_attention") if rope.has("full_attention") else rope
