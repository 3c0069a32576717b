"""From the location in a pydantic error to the key and section of the scenario schema that it is about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, get_args

from servecast.configs.fields import Section
from servecast.hardware.yaml_source import KeyPath

Sections = dict[str, type[Section]]


@dataclass(frozen=True)
class Spot:
    """path: the keys as in the YAML file. owner: the section of the last key, None inside a list."""

    path: KeyPath
    owner: type[Section] | None


@dataclass(frozen=True)
class Key:
    """A key of the schema. variant: `process: gamma` if only that kind of its section has it, else None."""

    dotted: str
    variant: str | None


def find(root: type[Section], location: tuple[str | int, ...]) -> Spot:
    """The spot of pydantic's `location`, which names the kind of a section as a step of its own."""
    path: list[str | int | float] = []
    owner: type[Section] | None = None
    inside: Sections = {"": root}
    for part in location:
        if len(inside) > 1:
            inside = {"": inside[str(part)]}
            continue
        path.append(part)
        owner = inside.get("")
        inside = {} if owner is None else field_sections(owner, part)
    return Spot(tuple(path), owner)


def field_sections(owner: type[Section], key: str | int | float) -> Sections:
    """The sections that `key` may hold, by kind: empty for a plain value, "" where there is only one."""
    field = owner.model_fields.get(key) if isinstance(key, str) else None
    found = [] if field is None else list(_sections_in(field.annotation))
    return {"": found[0]} if len(found) == 1 else {variant(section)[1]: section for section in found}


def variant(section: type[Section]) -> tuple[str, str]:
    """Key and value that tell a section from its alternatives, e.g. ("process", "gamma"): its first field."""
    key, field = next(iter(section.model_fields.items()))
    return key, get_args(field.annotation)[0]


@cache
def keys_named(root: type[Section], name: str) -> tuple[Key, ...]:
    """Every place of the schema that has a key called `name`."""
    return tuple(key for key in _keys(root, "", None) if key.dotted.rsplit(".", 1)[-1] == name)


def _keys(section: type[Section], prefix: str, kind: str | None) -> Iterator[Key]:
    for name in section.model_fields:
        yield Key(prefix + name, kind)
        inner = field_sections(section, name)
        for tag, subsection in inner.items():
            tagged = None if tag == "" else ": ".join(variant(subsection))
            yield from _keys(subsection, f"{prefix}{name}.", tagged)


def _sections_in(annotation: Any) -> Iterator[type[Section]]:
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
    for argument in get_args(annotation):
        yield from _sections_in(argument)
