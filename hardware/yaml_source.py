"""Reads a YAML file into plain Python data and remembers the line of every key, for error messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import yaml

from servecast.hardware.errors import ConfigError

KeyPath = tuple[str | int | float, ...]

# Lists and mappings that aliases may repeat, and keys that merges may make: a file of a few lines can ask for billions.
MOST_REPEATS = 10_000

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_KINDS: dict[type, str] = {yaml.SequenceNode: "a list", yaml.MappingNode: "a mapping"}


@dataclass(frozen=True)
class YamlSource:
    """`data`: the file's content. `lines`: line number (from 1) of each key path, e.g. `("replica", "dtype")`."""

    file: Path
    data: Any
    lines: dict[KeyPath, int] = field(repr=False)

    def line(self, path: KeyPath) -> int | None:
        """Line of `path`, or of its nearest parent that stands in the file."""
        for end in range(len(path), -1, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return None


def read_yaml(file: Path, hint: str | None = None) -> YamlSource:
    """Read `file`. Raises ConfigError if it is missing, not text, not YAML, or repeats a key.

    hint: for a missing file, what would be right. The same text is not parsed twice, as the points of a sweep share
    their files. Nobody may change `data`.
    """
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError("no such file", file=file, hint=hint) from None
    except IsADirectoryError:
        raise ConfigError("is a folder, not a YAML file", file=file) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", file=file) from None
    return _parsed(text, file)


@lru_cache(maxsize=100)
def _parsed(text: str, file: Path) -> YamlSource:
    return parse_yaml(text, file)


def parse_yaml(text: str, file: Path) -> YamlSource:
    """As `read_yaml`, from `text`; `file` only names it in messages."""
    try:
        loader = _LOADER(text)
    except yaml.reader.ReaderError as error:
        raise _unreadable(error, text, file) from None
    builder = _Builder(loader, file)
    try:
        root = loader.get_single_node()
        data = None if root is None else builder.build(root, ())
    except yaml.MarkedYAMLError as error:
        line = None if error.problem_mark is None else error.problem_mark.line + 1
        raise ConfigError(f"broken YAML: {error.problem or error}", file=file, line=line) from None
    except yaml.reader.ReaderError as error:
        raise _unreadable(error, text, file) from None
    except RecursionError:
        raise ConfigError("broken YAML: far too deep nesting", file=file, line=1) from None
    finally:
        loader.dispose()
    return YamlSource(file, data, builder.lines)


def _unreadable(error: yaml.reader.ReaderError, text: str, file: Path) -> ConfigError:
    line = text.count("\n", 0, error.position) + 1
    return ConfigError(f"broken YAML: {error.reason}", file=file, line=line)


class _Builder:
    """From nodes to plain data. lines: line number of each key path."""

    def __init__(self, loader: Any, file: Path) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._loader = loader
        self._file = file
        self._built: set[int] = set()
        self._repeats = 0
        # Nodes that hold the one being built.
        self._around: set[int] = set()
        self._sizes: dict[int, int] = {}

    def build(self, node: yaml.Node, path: KeyPath) -> Any:
        self.lines.setdefault(path, node.start_mark.line + 1)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node)
        self._enter(node)
        if isinstance(node, yaml.SequenceNode):
            data: Any = [self.build(item, (*path, i)) for i, item in enumerate(node.value)]
        else:
            data = self._mapping(node, path)
        self._around.remove(id(node))
        return data

    def _enter(self, node: yaml.Node) -> None:
        """Raise ConfigError where anchors make data without end, or far more of it than the file holds."""
        if id(node) in self._around:
            raise self._error(node, "broken YAML: an anchor that holds itself")
        self._around.add(id(node))
        self._repeats += id(node) in self._built
        self._built.add(id(node))
        if self._repeats > MOST_REPEATS:
            raise self._error(node, f"aliases (*name) repeat more than {MOST_REPEATS:,} lists and mappings")

    def _mapping(self, node: yaml.Node, path: KeyPath) -> dict[Any, Any]:
        # keys that an anchor merges in (`<<`) come before the file's own, which may override them
        own = {id(key_node) for key_node, _ in node.value}
        if self._merged_size(node) > MOST_REPEATS:
            raise self._error(node, f"merges (<<) make more than {MOST_REPEATS:,} keys")
        self._loader.flatten_mapping(node)
        mapping: dict[Any, Any] = {}
        written: set[Any] = set()
        for key_node, value_node in node.value:
            key = self._key(key_node)
            line = key_node.start_mark.line + 1
            if key in written:
                raise ConfigError("key stands twice", file=self._file, line=line, key=str(key))
            if id(key_node) in own:
                written.add(key)
            self.lines[(*path, key)] = line
            mapping[key] = self.build(value_node, (*path, key))
        return mapping

    def _merged_size(self, node: yaml.Node) -> int:
        """Keys of mapping `node` when all merges are done, at most; more than MOST_REPEATS if one holds itself."""
        known = self._sizes.get(id(node))
        if known is not None:
            return known
        self._sizes[id(node)] = MOST_REPEATS + 1
        size = 0
        for key_node, value_node in node.value:
            if key_node.tag == "tag:yaml.org,2002:merge":
                merged = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
                size += sum(self._merged_size(inner) for inner in merged if isinstance(inner, yaml.MappingNode))
            else:
                size += 1
        self._sizes[id(node)] = size
        return size

    def _key(self, node: yaml.Node) -> str | int | float | bool:
        key = self._scalar(node) if isinstance(node, yaml.ScalarNode) else None
        if isinstance(key, (str, int, float, bool)):
            return key
        found = _KINDS.get(type(node)) or ("nothing" if key is None else repr(key))
        raise self._error(node, f"a key must be a word, found {found}")

    def _scalar(self, node: yaml.ScalarNode) -> Any:
        try:
            value = self._loader.construct_object(node, deep=True)
        except ValueError as error:
            # A date or number that looks like one and is not, such as 2023-13-45.
            raise self._error(node, f"broken YAML: {error}") from None
        if isinstance(value, (int, float)) and ":" in node.value:
            problem = f"{node.value} is a number to base 60 in YAML ({value:,})"
            raise self._error(node, problem, f'Write {value}, or "{node.value}" if it is text')
        return value

    def _error(self, node: yaml.Node, problem: str, hint: str | None = None) -> ConfigError:
        return ConfigError(problem, file=self._file, line=node.start_mark.line + 1, hint=hint)
