"""The building blocks of the scenario schema: sections, numbers as YAML spells them, and choices among names.

What the schema announces but the simulator cannot do yet is stated where a key is declared, as `planned` of a
`Choices`; building the feature ends with moving that name.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict
from pydantic_core import PydanticCustomError, core_schema

from servecast.hardware.errors import nearest

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler

# The type of each error that a validator of the schema raises itself; `messages.py` prints its text as it is.
OWN_ERROR = "servecast"

YAML_SWITCHES = "YAML reads on, off, yes and no as true and false; put quotes around them"

# YAML 1.1 reads 1.0e+3 as a number but 1e3 and 1e+3 as text.
_EXPONENT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)[eE][+-]?\d+")


class Section(BaseModel):
    """A mapping of the scenario file: no unknown keys, and nothing changes after reading."""

    # defer_build: only the whole scenario is compiled, not each section on its own as well.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)


def invalid(problem: str, hint: str | None = None, key: str | None = None) -> PydanticCustomError:
    """The error for a validator to raise. key: the key of the section that is wrong, None for all of it."""
    context = {"problem": problem, "hint": hint, "key": key}
    return PydanticCustomError(OWN_ERROR, "{problem}", context)


def check(condition: bool, key: str, problem: str, hint: str | None = None) -> None:
    """For a validator that looks at several keys: raise `invalid` naming `key` unless `condition` holds."""
    if not condition:
        raise invalid(problem, hint, key)


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Limits of a number, as `Annotated[int, Bounds(...)]` or `Annotated[float, Bounds(...)]`.

    Refused: numbers in quotes, booleans, infinity, NaN. 1e3, which YAML 1.1 reads as text, is a number.
    """

    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None

    def __get_pydantic_core_schema__(self, source: type[Any], _handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        # Written out: composed of pydantic's own annotations, the schema takes twice as long to compile.
        limits: dict[str, Any] = {key: value for key, value in vars(self).items() if value is not None}
        if source is int:
            whole = core_schema.int_schema(strict=True, **limits)
            return core_schema.no_info_before_validator_function(whole_number, whole)
        number = core_schema.float_schema(strict=True, allow_inf_nan=False, **limits)
        return core_schema.no_info_before_validator_function(_number, number)


def _number(value: object) -> object:
    if isinstance(value, str) and _EXPONENT.fullmatch(value):
        return float(value)
    return value


def whole_number(value: object) -> object:
    """`value`, as a whole number if it is one in another spelling (2000.0, 1e3)."""
    number = _number(value)
    return int(number) if isinstance(number, float) and number.is_integer() else number


Count = Annotated[int, Bounds(ge=1)]
Whole = Annotated[int, Bounds(ge=0)]
Number = Annotated[float, Bounds()]
Positive = Annotated[float, Bounds(gt=0)]
NotNegative = Annotated[float, Bounds(ge=0)]
Switch = Annotated[bool, Strict()]


def _printable(text: str) -> str:
    """A terminal would act on control characters of a name."""
    odd = next((letter for letter in text if unicodedata.category(letter) == "Cc"), None)
    if odd is not None:
        raise invalid(f"must not hold control characters, found {odd!r} in {text!r}")
    return text


Text = Annotated[str, Field(min_length=1), AfterValidator(_printable)]


@dataclass(frozen=True)
class Choices:
    """Names that a key takes. planned: names that are announced and refused as "not supported yet".

    Used as `Annotated[str, Choices(...)]`.
    """

    supported: tuple[str, ...]
    planned: tuple[str, ...] = ()

    def check(self, value: object) -> str:
        if isinstance(value, str) and value in self.supported:
            return value
        names = list(value) if isinstance(value, Mapping) and len(value) == 1 else [value]
        if names[0] in self.planned:
            raise invalid(f"{names[0]} is not supported yet", f"Supported: {', '.join(self.supported)}")
        hint = YAML_SWITCHES if isinstance(value, bool) else near_miss(value, self.supported)
        raise invalid(f"must be {one_of(self.supported)}, found {describe(value)}", hint)

    def __get_pydantic_core_schema__(
        self, _source: type[Any], _handler: GetCoreSchemaHandler
    ) -> core_schema.CoreSchema:
        return core_schema.no_info_plain_validator_function(self.check)

    def __get_pydantic_json_schema__(
        self, _schema: core_schema.CoreSchema, _handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.supported)}


def one_of(names: tuple[str, ...]) -> str:
    """`a`; `a or b`; `one of a, b, c`."""
    return " or ".join(names) if len(names) < 3 else "one of " + ", ".join(names)


def near_miss(value: object, names: tuple[str, ...]) -> str | None:
    """The hint which of several `names` was probably meant, if one is close."""
    guess = nearest(value, names) if isinstance(value, str) and len(names) > 1 else None
    return None if guess is None else f"Did you mean {guess!r}?"


def describe(value: object) -> str:
    """`value` as the reader of a YAML file knows it, for messages."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, (list, tuple)):
        return "a list"
    if isinstance(value, str):
        return f"the text {value!r}"
    return repr(value) if isinstance(value, (int, float)) else f"{value} ({type(value).__name__})"
