"""Typed access to the fields of a Hugging Face config, whose names differ between model families."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from servecast.hardware.errors import ConfigError
from servecast.hardware.yaml_source import KeyPath

# A number that people mistype by three digits should not fill the memory with layers.
MOST_LAYERS = 2000


@dataclass(frozen=True)
class ConfigFields:
    """One mapping of a config. A field is asked for by every name it goes by; the first with a value counts, and
    null counts as missing.

    path: the keys that lead to the mapping. line_of: the line of a key path, None if not known. notes: what was
    assumed while reading, shared by all mappings of a file and only ever appended to.
    """

    file: Path
    path: KeyPath
    values: Mapping[str, Any]
    line_of: Callable[[KeyPath], int | None] = field(repr=False)
    notes: list[str] = field(default_factory=list)

    def find(self, *names: str) -> str | None:
        """The first of `names` that has a value."""
        return next((name for name in names if self.values.get(name) is not None), None)

    def get(self, *names: str) -> Any:
        """The raw value, None where it is missing."""
        name = self.find(*names)
        return None if name is None else self.values[name]

    def error(self, name: str, problem: str, hint: str | None = None) -> ConfigError:
        """An error about field `name`, to be raised by the caller."""
        path = (*self.path, name)
        return ConfigError(problem, file=self.file, line=self.line_of(path), key=dotted(path), hint=hint)

    def note(self, text: str) -> None:
        """Keep what was assumed; once, though several layers may ask."""
        if text not in self.notes:
            self.notes.append(text)

    def count(self, *names: str, default: int | None = None, least: int = 1) -> int:
        """A whole number from `least` on; `default` where it is missing. Without a default it must be there."""
        name = self.find(*names)
        if name is not None:
            return self.whole(name, self.values[name], least)
        if default is None:
            hint = f"Also read: {', '.join(names[1:])}" if len(names) > 1 else None
            raise self.error(names[0], f"is missing; it must be a whole number, {least} or more", hint)
        return default

    def whole(self, name: str, value: Any, least: int = 1) -> int:
        """`value`, of field `name` or an entry of it, if it is a whole number from `least` on."""
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise self.error(name, f"must be a whole number, {least} or more, found {value!r}")
        return value

    def number(self, name: str) -> float:
        """A number above 0, which must be there."""
        value = self.get(name)
        if value is None:
            raise self.error(name, "is missing; it must be a number above 0")
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 1e6:
            raise self.error(name, f"must be a number above 0, found {value!r}")
        return float(value)

    def flag(self, *names: str, default: bool = False) -> bool:
        name = self.find(*names)
        if name is None:
            return default
        if not isinstance(self.values[name], bool):
            raise self.error(name, f"must be true or false, found {self.values[name]!r}")
        return bool(self.values[name])

    def text(self, *names: str, default: str = "") -> str:
        name = self.find(*names)
        if name is None:
            return default
        if not isinstance(self.values[name], str):
            raise self.error(name, f"must be a text, found {self.values[name]!r}")
        return str(self.values[name])

    def items(self, name: str) -> list[Any]:
        """A list; empty where it is missing."""
        value = self.values.get(name)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.error(name, f"must be a list, found {value!r}")
        return value

    def listed(self, name: str, layers: int) -> list[Any]:
        """The list under `name`, which must have one entry for each of `layers` layers."""
        items = self.items(name)
        if len(items) != layers:
            raise self.error(name, f"must have one entry for each of the {layers} layers, found {len(items)}")
        return items

    def per_layer(self, layers: int, *names: str, default: int | None = None) -> tuple[int, ...]:
        """A count for each of `layers` layers, from one number for all or from a list with one entry a layer."""
        name = self.find(*names)
        if name is None or not isinstance(self.values[name], list):
            return (self.count(*names, default=default),) * layers
        return tuple(self.whole(name, item) for item in self.listed(name, layers))

    def section(self, *names: str) -> ConfigFields | None:
        """The mapping under the first of `names` that has a value, None where there is none."""
        name = self.find(*names)
        if name is None:
            return None
        if not isinstance(self.values[name], dict):
            raise self.error(name, f"must hold fields of its own, found {self.values[name]!r}")
        return ConfigFields(self.file, (*self.path, name), self.values[name], self.line_of, self.notes)


def dotted(path: KeyPath) -> str:
    """As messages write a path: `text_config.hidden_size`."""
    return ".".join(map(str, path))
