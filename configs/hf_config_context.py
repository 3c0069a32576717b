"""How many tokens of context a Hugging Face config allows, and the rows of its position tables."""

from __future__ import annotations

from servecast.configs.hf_config_families import Family
from servecast.configs.hf_config_fields import ConfigFields

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


def read_context(fields: ConfigFields, family: Family) -> tuple[int, int | None]:
    """Tokens of usable context, and the rows of the cos/sin tables where those are more.

    Source: vLLM 0.19, model configuration: linear, dynamic and yarn multiply; llama3 and longrope do not.
    """
    written = fields.count(*_LENGTHS, default=family.context)
    rope = _rope(fields)
    kind = "default" if rope is None else rope.text("rope_type", "type", default="default")
    if rope is None or kind in _ALREADY or family.positions_offset is not None:
        stretch = 1.0
    elif kind in _MULTIPLY:
        stretch = rope.number("factor")
    else:
        fields.note(f"rope type {kind!r} is not known: the context is taken as it stands")
        stretch = 1.0
    if family.two_rotary_tables:
        # Gemma 3: the length is stretched already, and only the table of the full layers is the longer
        return written, int(written * stretch) + written
    if rope is not None and "yarn" in kind:
        return int(rope.count("original_max_position_embeddings", default=written) * stretch), None
    return int(written * stretch), None


def _rope(fields: ConfigFields) -> ConfigFields | None:
    """How positions are scaled: under the older or the newer name, there perhaps for full attention apart."""
    rope = fields.section("rope_scaling", "rope_parameters")
    return None if rope is None else rope.section("full_attention") or rope
