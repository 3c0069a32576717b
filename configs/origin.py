"""Where a scenario's settings are from: turns a key into the file and line, or the override, that set it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from servecast.hardware.errors import ConfigError
from servecast.hardware.yaml_source import KeyPath


@dataclass(frozen=True)
class Place:
    """A line of a file, such as a sweep's, that changes a scenario. line: None if it is not known."""

    file: Path
    line: int | None


# What changed a setting: `key=value` of --set, or a place.
Setter = str | Place


@dataclass(frozen=True)
class Origin:
    """file: None for a scenario made in Python. lines: key path -> line. overrides: key path -> what changed it.

    All origins are equal: they do not count when scenarios are compared.
    """

    file: Path | None = field(default=None, compare=False)
    lines: Mapping[KeyPath, int] = field(default_factory=dict, compare=False, repr=False)
    overrides: Mapping[KeyPath, Setter] = field(default_factory=dict, compare=False)

    def line(self, path: KeyPath) -> int | None:
        """Line of `path`, or of its nearest parent that stands in the file."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return None

    def override(self, path: KeyPath) -> Setter | None:
        """The change that set `path`, a parent of it, or, if no file has it, the last one inside it; None if the file
        did.
        """
        for end in range(len(path), 0, -1):
            if path[:end] in self.overrides:
                return self.overrides[path[:end]]
        inside = [text for other, text in self.overrides.items() if path and other[: len(path)] == path]
        return inside[-1] if inside and path not in self.lines else None

    def error(self, key: str | KeyPath, problem: str, hint: str | None = None) -> ConfigError:
        """A ConfigError about `key` (dotted, or a path) that names what set it."""
        path = tuple(key.split(".")) if isinstance(key, str) else key
        dotted = ".".join(map(str, path)) or None
        override = self.override(path)
        if isinstance(override, Place):
            return ConfigError(problem, file=override.file, line=override.line, key=dotted, hint=hint)
        if override is not None:
            option = f"--set {override}"
            same = override.split("=", 1)[0].strip() == dotted
            return ConfigError(problem, key=option if same else f"{option}: {dotted}", hint=hint)
        return ConfigError(problem, file=self.file, line=self.line(path), key=dotted, hint=hint)

    def locate(self, error: ConfigError, section: str = "") -> ConfigError:
        """`error`, raised by a part that knows no files, with its place: its key is one of `section`'s.

        The key may name the section already. An error that names a file or an override is returned as it is.
        """
        if error.file is not None or (error.key or "").startswith("--set "):
            return error
        key = error.key or section
        if key != section and not key.startswith(f"{section}."):
            key = f"{section}.{key}" if section else key
        return self.error(key, error.problem, error.hint)

    def resolve(self, key: str, value: str) -> Path:
        """The path that `value` of `key` means; `~` is the home folder.

        It is relative to the file that sets it; set by --set or in Python, to the current folder.
        """
        path, override = Path(value).expanduser(), self.override(tuple(key.split(".")))
        if isinstance(override, Place):
            return override.file.parent / path
        return path if self.file is None or override is not None else self.file.parent / path
