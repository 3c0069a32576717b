"""Reads typed fields of a YAML mapping. A wrong one is a ConfigError: line, value and what would be right."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from servecast.hardware.errors import ConfigError, did_you_mean
from servecast.hardware.yaml_source import KeyPath, YamlSource


@dataclass(frozen=True)
class Fields:
    """One mapping of a YAML file. `path`: the keys that lead to it; messages name fields by the dotted path.

    A key whose value is empty (null) counts as missing.
    """

    source: YamlSource
    path: KeyPath
    values: Mapping[Any, Any]

    @classmethod
    def of_file(cls, source: YamlSource, what: str) -> Fields:
        """All of a file; `what` it describes is for the message where it holds no mapping."""
        if not isinstance(source.data, dict):
            raise ConfigError(f"must hold the fields of {what}, one `key: value` a line", file=source.file)
        return cls(source, (), source.data)

    def error(self, key: str | int, problem: str, hint: str | None = None) -> ConfigError:
        """An error about `key` of this mapping, to be raised by the caller."""
        path = (*self.path, key)
        dotted = ".".join(map(str, path))
        return ConfigError(problem, file=self.source.file, line=self.source.line(path), key=dotted, hint=hint)

    def only(self, allowed: Collection[str]) -> None:
        """Raises ConfigError for the first key that is none of `allowed`."""
        for key in self.values:
            if key not in allowed:
                raise self.error(str(key), "unknown key", did_you_mean(str(key), allowed))

    def has(self, key: str | int) -> bool:
        return self.values.get(key) is not None

    def number(self, key: str | int, *, zero: bool = False) -> float:
        """A finite number above 0, or from 0 on if `zero`."""
        right = "a number, 0 or more" if zero else "a number above 0"
        value = self._present(key, right)
        if isinstance(value, bool) or not isinstance(value, int | float):
            hint = "Write powers of ten with a decimal point, as 1.0e+12" if isinstance(value, str) else None
            raise self.error(key, f"must be {right}, found {value!r}", hint)
        if not math.isfinite(value) or value < 0 or (value == 0 and not zero):
            raise self.error(key, f"must be {right}, found {value}")
        return float(value)

    def count(self, key: str) -> int:
        """A whole number, 1 or more."""
        value = self._present(key, "a whole number, 1 or more")
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise self.error(key, f"must be a whole number, 1 or more, found {value!r}")
        return value

    def numbers(self, key: str) -> tuple[float, ...]:
        """A list of numbers above 0."""
        value = self._present(key, "a list of numbers above 0")
        if not isinstance(value, list) or not all(_positive(item) for item in value):
            raise self.error(key, f"must be a list of numbers above 0, as [1, 2.5], found {value!r}")
        return tuple(float(item) for item in value)

    def flag(self, key: str) -> bool:
        value = self._present(key, "true or false")
        if not isinstance(value, bool):
            raise self.error(key, f"must be true or false, found {value!r}")
        return value

    def text(self, key: str, default: str | None = None) -> str:
        """A word or sentence; `default` where the key is missing. Without a default the key must be there."""
        if default is not None and not self.has(key):
            return default
        value = self._present(key, "a text")
        if not isinstance(value, str):
            raise self.error(key, f"must be a text, found {value!r}", f'Put it in quotes: "{value}"')
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of words; empty where the key is missing."""
        value = self.values.get(key, [])
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(key, f"must be a list of names, as [first, second], found {value!r}")
        return tuple(value)

    def section(self, key: str | int) -> Fields:
        """The mapping under `key`, or at that place of a list."""
        value = self._present(key, "a mapping")
        if not isinstance(value, dict):
            raise self.error(key, f"must hold keys of its own, found {value!r}")
        return Fields(self.source, (*self.path, key), value)

    def sections(self, key: str) -> list[Fields]:
        """The mappings of the list under `key`; empty where the key is missing."""
        value = self.values.get(key) or []
        if not isinstance(value, list):
            raise self.error(key, f"must be a list, found {value!r}")
        listed = Fields(self.source, (*self.path, key), dict(enumerate(value)))
        return [listed.section(index) for index in range(len(value))]

    def text_map(self, key: str) -> dict[str, str]:
        """The mapping of names to texts under `key`; empty where the key is missing."""
        if not self.has(key):
            return {}
        section = self.section(key)
        return {name: section.text(name) for name in section.values}

    def _present(self, key: str | int, right: str) -> Any:
        if not self.has(key):
            raise self.error(key, f"is missing; it must be {right}")
        return self.values[key]


def _positive(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and value > 0
