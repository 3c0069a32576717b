"""From pydantic's errors to one message in the words of someone who edits a YAML file."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from servecast.configs.fields import OWN_ERROR, YAML_SWITCHES, Section, describe, near_miss, one_of
from servecast.configs.origin import Origin
from servecast.configs.schema_walk import Key, Spot, field_sections, find, keys_named, variant
from servecast.hardware.errors import ConfigError, did_you_mean, nearest
from servecast.hardware.yaml_source import KeyPath
from servecast.model.slo import EXAMPLE

MOST_SHOWN = 5

# Pydantic's error type -> what would be right; braces are filled from the error's context.
_MUST = {
    "int_type": "be a whole number",
    "float_type": "be a number",
    "finite_number": "be finite",
    "bool_type": "be true or false",
    "string_type": "be text",
    "string_too_short": "not be empty",
    "greater_than": "be above {gt}",
    "greater_than_equal": "be {ge} or more",
    "less_than": "be below {lt}",
    "less_than_equal": "be {le} or less",
    "tuple_type": "be a list",
    "too_short": "have {min_length} entries or more",
    "model_type": "be a section with keys",
    "dict_type": "be a section with keys",
    "model_attributes_type": "be a section with keys",
}
_NUMERIC = re.compile(r"\s*([+-]?[\d.,_ ]*\d)\s*([^\d\s]*)\s*")
# What people call a key elsewhere -> the name here.
_ALSO_KNOWN_AS = {
    "tp": "tensor_parallel_size",
    "pp": "pipeline_parallel_size",
    "rate": "request_rate",
    "qps": "request_rate",
    "rps": "request_rate",
    "num_prompts": "num_requests",
    "max_concurrency": "concurrency",
}


@dataclass(frozen=True)
class _Problem:
    path: KeyPath
    text: str
    hint: str | None
    unknown_key: bool = False
    missing: bool = False


def config_error(error: ValidationError, root: type[Section], origin: Origin) -> ConfigError:
    """All of `error` as one ConfigError: the place of the first problem, a line of text for each."""
    problems = _without_echoes([_translate(detail, root) for detail in error.errors(include_url=False)])
    problems.sort(key=lambda problem: (origin.override(problem.path) is None, origin.line(problem.path) or 0))
    return joined([origin.error(problem.path, problem.text, problem.hint) for problem in problems])


def joined(errors: Sequence[ConfigError]) -> ConfigError:
    """The first of `errors`, with the text of all of them (at most MOST_SHOWN) on a line each."""
    first, shown = errors[0], [str(error) for error in errors[:MOST_SHOWN]]
    if len(errors) > MOST_SHOWN:
        shown.append(f"and {len(errors) - MOST_SHOWN} more")
    first.args = ("\n".join(shown),)
    return first


def _without_echoes(problems: list[_Problem]) -> list[_Problem]:
    """Drop "missing" for a key that stands there misspelt: the unknown key already says it."""
    misspelt = {
        (*problem.path[:-1], guess)
        for problem in problems
        if problem.unknown_key
        for other in problems
        if other.missing and (guess := nearest(str(problem.path[-1]), [str(other.path[-1])])) is not None
    }
    return [problem for problem in problems if not (problem.missing and problem.path in misspelt)]


def _translate(detail: ErrorDetails, root: type[Section]) -> _Problem:
    spot = find(root, detail["loc"])
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == OWN_ERROR:
        path = spot.path if context["key"] is None else (*spot.path, context["key"])
        return _Problem(path, context["problem"], context["hint"])
    if kind == "extra_forbidden":
        return _unknown_key(spot, root)
    if kind == "missing":
        return _Problem(spot.path, "is missing", _description(spot), missing=True)
    if kind == "invalid_key":
        path, hint = (*spot.path[:-1], value), YAML_SWITCHES if isinstance(value, bool) else None
        return _Problem(path, f"a key must be text, found {describe(value)}", hint)
    if kind in ("union_tag_invalid", "union_tag_not_found"):
        return _wrong_kind(spot, value, root)
    must = _MUST.get(kind)
    if must is None:
        return _Problem(spot.path, f"{detail['msg']}, found {describe(value)}", None)
    bounds = {name: _plain(bound) for name, bound in context.items()}
    text = f"must {must.format(**bounds)}, found {_found(kind, value)}"
    return _Problem(spot.path, text, _hint(kind, spot, value))


def _plain(bound: Any) -> Any:
    """A bound as people write it: 100,000,000 and 0.000001."""
    if not isinstance(bound, (int, float)):
        return bound
    return f"{int(bound):,}" if bound == int(bound) else f"{bound:.12f}".rstrip("0")


def _unknown_key(spot: Spot, root: type[Section]) -> _Problem:
    key = str(spot.path[-1])
    owner = spot.owner or root
    name = _ALSO_KNOWN_AS.get(key, key)
    elsewhere = keys_named(root, name)
    if name in owner.model_fields:
        hint = f"Did you mean {name!r}?"
    elif elsewhere and nearest(key, owner.model_fields) is None:
        hint = "It belongs to " + " or ".join(dict.fromkeys(_place(place, spot.path) for place in elsewhere))
    else:
        hint = did_you_mean(key, owner.model_fields)
    return _Problem(spot.path, "unknown key", hint, unknown_key=True)


def _place(key: Key, path: KeyPath) -> str:
    if key.variant is None:
        return key.dotted
    same_section = key.dotted == ".".join(map(str, path))
    return key.variant if same_section else f"{key.dotted} with {key.variant}"


def _wrong_kind(spot: Spot, value: Any, root: type[Section]) -> _Problem:
    """A section whose kind is missing or unknown, e.g. `arrivals` without a known `process`."""
    sections = field_sections(spot.owner or root, spot.path[-1])
    tag, _ = variant(next(iter(sections.values())))
    path, names = (*spot.path, tag), tuple(sections)
    found = value.get(tag)
    if found is None:
        return _Problem(path, f"is missing: must be {one_of(names)}", None)
    return _Problem(path, f"must be {one_of(names)}, found {describe(found)}", near_miss(found, names))


def _description(spot: Spot) -> str | None:
    if spot.owner is None:
        return None
    text = spot.owner.model_fields[str(spot.path[-1])].description
    return None if text is None else text.rstrip(".")


def _found(kind: str, value: Any) -> str:
    if kind == "too_short":
        return str(len(value))
    return "an empty text" if kind == "string_too_short" else describe(value)


def _hint(kind: str, spot: Spot, value: Any) -> str | None:
    """What to do about `value`, where the mistake is a common one."""
    if value is None:
        field = spot.owner.model_fields.get(str(spot.path[-1])) if spot.owner else None
        return None if field is None or field.is_required() else "Leave the key out to get its default"
    rule = _HINTS.get(kind)
    return None if rule is None else rule(spot, value)


def _finite_hint(spot: Spot, value: Any) -> str | None:
    endless = spot.path[-1] == "request_rate" and value == float("inf")
    return "For all requests at once use process: batch" if endless else None


def _number_hint(_spot: Spot, value: Any) -> str | None:
    number = _NUMERIC.fullmatch(value) if isinstance(value, str) else None
    if number is None:
        return None
    plain = re.sub(r"[,_ ]", "", number[1])
    if number[2]:
        return f"Write the number alone, without {number[2]!r}"
    return f"Write {plain} without quotes" if plain == value else f"Write {plain}"


def _switch_hint(_spot: Spot, value: Any) -> str | None:
    word = str(value).lower()
    return f"Write {word} without quotes" if word in ("true", "false", "on", "off", "yes", "no") else None


def _text_hint(spot: Spot, value: Any) -> str | None:
    if isinstance(value, bool):
        return YAML_SWITCHES
    if isinstance(value, (dict, list)):
        return EXAMPLE if spot.path[-1] == "slo" else None
    return f'Put quotes around it: "{value}"'


def _section_hint(spot: Spot, value: Any) -> str | None:
    """How the section is written that somebody put as a plain value."""
    key = spot.path[-1]
    if key == "lengths" and isinstance(value, str):
        return f"Write lengths: {{profile: {value}}}"
    if key in ("prompt", "output") and isinstance(value, int):
        return f"Write {key}: {{distribution: fixed, value: {value}}}"
    if key == "arrivals" and isinstance(value, str):
        return f"Write arrivals: {{process: {value}, ...}}"
    return None


_HINTS: dict[str, Callable[[Spot, Any], str | None]] = {
    "finite_number": _finite_hint,
    "int_type": _number_hint,
    "float_type": _number_hint,
    "bool_type": _switch_hint,
    "string_type": _text_hint,
    "model_type": _section_hint,
    "model_attributes_type": _section_hint,
}
