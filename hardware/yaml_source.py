"""Reads a YAML file into plain Python data and remembers the line of every key, for error messages."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from servecast.hardware.errors import ConfigError

KeyPath = tuple[str | int | float, ...]

_LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


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


def read_yaml(file: Path) -> YamlSource:
    """Read `file`. Raises ConfigError if it is missing, not text, not YAML, or repeats a key."""
    try:
        text = file.read_text(encoding="utf-8-sig")
    except FileNotFoundError:
        raise ConfigError("no such file", file=file) from None
    except IsADirectoryError:
        raise ConfigError("is a folder, not a YAML file", file=file) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", file=file) from None
    return parse_yaml(text, file)


def parse_yaml(text: str, file: Path) -> YamlSource:
    """As `read_yaml`, from `text`; `file` only names it in messages."""
    loader = _LOADER(text)
    try:
        root = loader.get_single_node()
        lines: dict[KeyPath, int] = {}
        data = None if root is None else _build(loader, root, (), lines, file)
    except yaml.MarkedYAMLError as error:
        line = None if error.problem_mark is None else error.problem_mark.line + 1
        raise ConfigError(f"broken YAML: {error.problem or error}", file=file, line=line) from None
    except (yaml.YAMLError, ValueError) as error:
        # ValueError: a date or number that looks like one and is not, such as 2023-13-45.
        raise ConfigError(f"broken YAML: {error}", file=file) from None
    except RecursionError:
        raise ConfigError("broken YAML: an anchor that holds itself, or far too deep nesting", file=file) from None
    finally:
        loader.dispose()
    return YamlSource(file, data, lines)


def _build(loader: Any, node: yaml.Node, path: KeyPath, lines: dict[KeyPath, int], file: Path) -> Any:
    lines.setdefault(path, node.start_mark.line + 1)
    if isinstance(node, yaml.SequenceNode):
        return [_build(loader, item, (*path, i), lines, file) for i, item in enumerate(node.value)]
    if not isinstance(node, yaml.MappingNode):
        return loader.construct_object(node, deep=True)
    # keys that an anchor merges in (`<<`) come before the file's own, which may override them
    own = {id(key_node) for key_node, _ in node.value}
    loader.flatten_mapping(node)
    mapping: dict[Any, Any] = {}
    written: set[Any] = set()
    for key_node, value_node in node.value:
        key = loader.construct_object(key_node, deep=True)
        line = key_node.start_mark.line + 1
        if not isinstance(key, (str, int, float, bool)):
            raise ConfigError(f"a key must be a word, found {key!r}", file=file, line=line)
        if key in written:
            raise ConfigError("key stands twice", file=file, line=line, key=str(key))
        if id(key_node) in own:
            written.add(key)
        lines[(*path, key)] = line
        mapping[key] = _build(loader, value_node, (*path, key), lines, file)
    return mapping
