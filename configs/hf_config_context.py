"""How many tokens of context a Hugging Face config allows, and the rows of its position tables."""

from __future__ import annotations

from servecast.configs.hf_config_families import Family
from servecast.configs.hf_config_fields import ConfigFields

_LENGTHS = (
    # Cohere trained longer than max_position_embeddings says
    "model_max_length",
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "max_sequence_length",
    "max_seq_length",
    "n_ctx",
)
# Stretch the trained context; the config holds the length before.
_MULTIPLY = ("linear", "dynamic", "ntk", "yarn", "deepseek_yarn")
# The config holds the length after.
_ALREADY = ("default", "llama3", "mrope", "proportional")
# Likewise, with a table for short sequences and one for long ones.
_LONG = ("longrope", "su")


def read_context(fields: ConfigFields, family: Family) -> tuple[int, int | None]:
    """Tokens of usable context, and the rows of all cos/sin tables, None for one table as long as the context.

    Source: vLLM 0.19, model configuration: linear, dynamic and yarn multiply; llama3 and longrope do not.
    """
    written = fields.count(*_LENGTHS, default=family.context)
    if family.positions_offset is not None:
        return written, None
    if _has_alibi(fields, family):
        return written, 0
    rope = _rope(fields)
    kind = _kind(rope)
    stretch = _stretch(rope, kind)
    if family.two_rotary_tables:
        # the length is stretched already; full layers have a table of their own, stretched or with wider rows
        wide = fields.count("global_head_dim", default=1) / fields.count("head_dim", default=1)
        return written, int(written * stretch * max(1.0, wide)) + written
    original = written if rope is None else rope.count("original_max_position_embeddings", default=written)
    if kind in _LONG:
        return written, written + fields.count("original_max_position_embeddings", default=original)
    return int((original if "yarn" in kind else written) * stretch), None


def _kind(rope: ConfigFields | None) -> str:
    """Old files give a factor without a kind; it is linear."""
    if rope is None:
        return "default"
    return rope.text("rope_type", "type", default="linear" if rope.find("factor") else "default")


def _stretch(rope: ConfigFields | None, kind: str) -> float:
    if rope is None or kind in _ALREADY or kind in _LONG:
        return 1.0
    if kind not in _MULTIPLY:
        rope.note(f"rope type {kind!r} is not known: the context is taken as it stands")
        return 1.0
    return rope.number("factor") if rope.find("factor") else 1.0


def _has_alibi(fields: ConfigFields, family: Family) -> bool:
    inner = fields.section("attn_config")
    return family.alibi or fields.flag("alibi") or (inner is not None and inner.flag("alibi"))


def _rope(fields: ConfigFields) -> ConfigFields | None:
    """How positions are scaled: under the older or the newer name, there perhaps for full attention apart."""
    rope = fields.section("rope_scaling", "rope_parameters")
    return None if rope is None else rope.section("full_attention") or rope
