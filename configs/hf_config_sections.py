"""Finds the language model in a config whose fields lie one or two levels down, beside towers for images and sound."""

from __future__ import annotations

from collections.abc import Iterator

from servecast.configs.hf_config_families import family_of
from servecast.configs.hf_config_fields import ConfigFields, dotted

LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")
_WIDTH = ("hidden_size", "n_embd", "d_model")

# Most specific first: `thinker_config` holds a text_config of its own.
_TEXT = ("text_config", "llm_config", "language_config", "thinker_config", "text_model_config", "decoder_config")
_NOT_TEXT = ("vision", "visual", "vit", "audio", "speech", "talker", "token2wav", "projector", "draft", "mtp")
_DEPTH = 2


def language_sections(top: ConfigFields) -> tuple[ConfigFields, ...]:
    """The section with the language model's fields, then those around it, outwards to `top`.

    Raises ConfigError, with the paths looked at, if there is none.
    """
    chain = _named(top, _DEPTH)
    if chain is None and top.find(*LAYERS) is not None:
        chain = (top,)
    if chain is None:
        found = list(_searched(top, _DEPTH))
        if len(found) == 1:
            chain = found[0]
    if chain is None:
        looked = ", ".join(dict.fromkeys(_paths(top, _DEPTH)))
        hint = f"Looked at {looked}" if looked else "The file has no nested sections either"
        raise top.error(LAYERS[0], "is missing; no section describes a language model", hint)
    return chain


def _named(fields: ConfigFields, depth: int) -> tuple[ConfigFields, ...] | None:
    if depth == 0:
        return None
    for name in _TEXT:
        inner = fields.section(name) if isinstance(fields.values.get(name), dict) else None
        if inner is None:
            continue
        deeper = _named(inner, depth - 1)
        if deeper is not None:
            return (*deeper, fields)
        if inner.find(*LAYERS) is not None or (fields.find(*LAYERS) is None and _has_defaults(inner)):
            return (inner, fields)
    return None


def _has_defaults(fields: ConfigFields) -> bool:
    family = family_of(str(fields.values.get("model_type")))
    return family is not None and LAYERS[0] in family.sizes


def _searched(fields: ConfigFields, depth: int) -> Iterator[tuple[ConfigFields, ...]]:
    """Sections of any other name that state a number of layers and a width."""
    for inner in _inner(fields) if depth else ():
        if inner.find(*LAYERS) is not None and inner.find(*_WIDTH) is not None:
            yield (inner, fields)
        else:
            for chain in _searched(inner, depth - 1):
                yield (*chain, fields)


def _inner(fields: ConfigFields) -> Iterator[ConfigFields]:
    for name, value in fields.values.items():
        if isinstance(value, dict) and not any(word in name.lower() for word in _NOT_TEXT):
            inner = fields.section(name)
            assert inner is not None  # a mapping, as was just seen
            yield inner


def _paths(fields: ConfigFields, depth: int) -> Iterator[str]:
    for inner in _inner(fields) if depth else ():
        yield dotted(inner.path)
        yield from _paths(inner, depth - 1)
