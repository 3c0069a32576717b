"""Reads fields of a Hugging Face config whose name, nesting and type differ between model families."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from servecast.hardware.errors import ConfigError
from servecast.hardware.yaml_fields import Fields
from servecast.hardware.yaml_source import KeyPath, YamlSource, parse_yaml

LAYER_COUNT = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")

# Where multi-modal configs put their language model, most usual first.
_NESTS = ("text_config", "llm_config", "language_config", "thinker_config", "language_model", "decoder_config")
_DEPTH = 3


@dataclass(frozen=True)
class Decoder:
    """The fields of the language model, and the levels of the file around it, nearest first.

    Fields are asked for by all the names that model families use; the first that has a value counts.
    """

    fields: Fields
    outer: tuple[Fields, ...] = ()

    def name_of(self, *names: str) -> str | None:
        """The first of `names` that has a value."""
        return next((name for name in names if self.fields.has(name)), None)

    def has(self, *names: str) -> bool:
        return self.name_of(*names) is not None

    def value(self, *names: str) -> Any:
        """The raw value, None where there is none."""
        name = self.name_of(*names)
        return None if name is None else self.fields.values[name]

    def count(self, *names: str, default: int | None = None) -> int:
        """A whole number, 1 or more; `default` where it is missing. Without a default it must be there."""
        name = self.name_of(*names)
        if name is None and default is not None:
            return default
        return self.fields.count(name) if name else self._missing(names)

    def whole(self, *names: str, default: int = 0) -> int:
        """A whole number, 0 or more; `default` where it is missing."""
        name = self.name_of(*names)
        if name is None:
            return default
        return whole_number(self.fields, name, self.fields.values[name])

    def flag(self, *names: str, default: bool) -> bool:
        name = self.name_of(*names)
        return default if name is None else self.fields.flag(name)

    def per_layer(self, layers: int, *names: str, default: int | None = None) -> tuple[int, ...]:
        """A count for each of `layers` layers: one number for all, or a list with one entry a layer."""
        name = self.name_of(*names)
        if name is None or not isinstance(self.fields.values[name], list):
            return (self.count(*names, default=default),) * layers
        return tuple(whole_number(self.fields, name, item, least=1) for item in self.listed(name, layers))

    def listed(self, name: str, layers: int) -> list[Any]:
        """The list under `name`, which must have one entry a layer."""
        value = self.fields.values[name]
        if not isinstance(value, list):
            raise self.fields.error(name, f"must be a list with one entry a layer, found {value!r}")
        if len(value) != layers:
            raise self.fields.error(name, f"must have one entry for each of the {layers} layers, found {len(value)}")
        return value

    def level_of(self, name: str) -> Fields | None:
        """The innermost level that has `name`: what holds for the whole model often stands outside."""
        return next((level for level in (self.fields, *self.outer) if level.has(name)), None)

    def part(self, name: str) -> Decoder:
        """The mapping under `name` as if it were a decoder's; empty where it is missing."""
        if self.fields.has(name):
            return Decoder(self.fields.section(name))
        return Decoder(Fields(self.fields.source, (*self.fields.path, name), {}))

    def _missing(self, names: tuple[str, ...]) -> int:
        hint = f"Older names are read too: {', '.join(names[1:])}" if len(names) > 1 else None
        raise self.fields.error(names[0], "is missing; it must be a whole number, 1 or more", hint)


def whole_number(fields: Fields, name: str, value: Any, least: int = 0) -> int:
    """`value`, an entry of `name`, if it is a whole number from `least` on; raises ConfigError if not."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise fields.error(name, f"must be a whole number, {least} or more, found {value!r}")
    return value


def find_decoder(fields: Fields) -> Decoder:
    """The level that describes the language model: the file's own, or one nested up to three deep.

    A nested one counts before the outer one, whose fields may be those of a vision tower. Raises ConfigError
    with the places looked at if there is none.
    """
    seen: list[str] = []
    found = _search(fields, (), seen)
    if found is None:
        problem = f"no model config: {LAYER_COUNT[0]} is missing; looked at {', '.join(seen)}"
        line = fields.source.line(fields.path)
        raise ConfigError(problem, file=fields.source.file, line=line)
    return found


def _search(fields: Fields, outer: tuple[Fields, ...], seen: list[str]) -> Decoder | None:
    seen.append(".".join(map(str, fields.path)) or "the top level")
    if len(outer) < _DEPTH:
        for nest in _NESTS:
            if isinstance(fields.values.get(nest), dict):
                found = _search(fields.section(nest), (fields, *outer), seen)
                if found is not None:
                    return found
    here = Decoder(fields, outer)
    return here if here.has(*LAYER_COUNT) else None


def read_json_config(file: Path) -> Fields:
    """The fields of a config.json. Raises ConfigError if it is missing, not text, or not JSON."""
    try:
        # utf-8-sig drops a byte order mark, which some editors put in front
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError("no such file", file=file) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", file=file) from None
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        problem = f"broken JSON: {error.msg} at column {error.colno}"
        raise ConfigError(problem, file=file, line=error.lineno) from None
    except RecursionError:
        raise ConfigError("broken JSON: far too deep nesting", file=file) from None
    if not isinstance(data, Mapping):
        raise ConfigError("must hold the fields of a model, found no { } around them", file=file)
    return Fields(YamlSource(file, data, _lines(text, file)), (), data)


def _lines(text: str, file: Path) -> dict[KeyPath, int]:
    """Line of each key. JSON is YAML but for tabs and repeated keys; without lines, messages do without."""
    try:
        return parse_yaml(text.replace("\t", " "), file).lines
    except ConfigError:
        return {}
