"""Small expressions over named values, such as `gpu != 'l40s' and max_num_seqs * 2 <= 256`, evaluated without eval().

Known: numbers, texts, true, false, null, lists; + - * / // %; comparisons, in; and, or, not; names with dots. Nothing
can be called, indexed or assigned, so that an expression in somebody else's file can do no harm.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from servecast.hardware.errors import ConfigError, nearest

# Enough for any filter, and few enough to bound depth and the size of numbers.
_MOST_CHARACTERS = 400

_CONSTANTS = {"true": True, "false": False, "null": None}
_ARITHMETIC: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, group: item in group,
    ast.NotIn: lambda item, group: item not in group,
}
_UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {ast.Not: operator.not_, ast.USub: operator.neg}
_KNOWN = "Known are numbers, 'texts', lists, names, + - * / // %, comparisons, in, and, or, not"


@dataclass(frozen=True)
class Expression:
    """A parsed and checked expression. names: those that it looks up."""

    text: str
    root: ast.expr
    names: frozenset[str]

    def value(self, values: Mapping[str, Any]) -> Any:
        """Its value with these `values` of names. Raises ConfigError if a name is unknown or the types do not fit."""
        self.check_names(values)
        try:
            return _value(self.root, values)
        except (TypeError, ArithmeticError, RecursionError) as error:
            used = ", ".join(f"{name} = {values[name]!r}" for name in sorted(self.names))
            place = f" for {used}" if used else ""
            raise ConfigError(f"{self.text!r} has no value{place}: {error}") from None

    def check_names(self, known: Collection[str]) -> None:
        """Raise ConfigError if a name is none of `known`."""
        for name in self.names:
            if name not in known:
                # All valid names are hundreds.
                guess = nearest(name, known)
                hint = "Known are axes and dotted keys of the scenario" if guess is None else f"Did you mean {guess!r}?"
                raise ConfigError(f"unknown name {name!r} in {self.text!r}", hint=hint)


def parse_expression(text: str) -> Expression:
    """Raises ConfigError for text that is no expression, or one with more than is known here."""
    if len(text) > _MOST_CHARACTERS:
        raise ConfigError(f"an expression of {len(text)} characters; at most {_MOST_CHARACTERS} are read")
    try:
        root = ast.parse(text.strip(), mode="eval").body
        names = frozenset(_names(root, text))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        problem = error.msg if isinstance(error, SyntaxError) else error
        raise ConfigError(f"{text!r} is no expression: {problem}", hint=_KNOWN) from None
    return Expression(text, root, names)


def _names(node: ast.expr, text: str) -> set[str]:
    """Names below `node`, all of which is checked to be known."""
    if isinstance(node, (ast.Name, ast.Attribute)):
        name = _dotted(node)
        if name is not None:
            return set() if name in _CONSTANTS else {name}
    elif isinstance(node, ast.Constant):
        if node.value is None or isinstance(node.value, (bool, int, float, str)):
            return set()
    else:
        inner = _operands(node)
        if inner is not None:
            return {name for operand in inner for name in _names(operand, text)}
    raise ConfigError(f"{ast.unparse(node)!r} is not allowed in {text!r}", hint=_KNOWN)


def _operands(node: ast.expr) -> list[ast.expr] | None:
    """What an operation works on, or None if it is none of the known ones."""
    match node:
        case ast.BoolOp(values=values) | ast.List(elts=values) | ast.Tuple(elts=values):
            return values
        case ast.UnaryOp(op=op, operand=operand) if type(op) in _UNARY:
            return [operand]
        case ast.BinOp(left=left, op=op, right=right) if type(op) in _ARITHMETIC:
            return [left, right]
        case ast.Compare(left=left, ops=ops, comparators=rest) if all(type(op) in _COMPARISONS for op in ops):
            return [left, *rest]
    return None


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value)
        return None if before is None else f"{before}.{node.attr}"
    return node.id if isinstance(node, ast.Name) else None


def _value(node: ast.expr, values: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name() | ast.Attribute():
            name = str(_dotted(node))
            return _CONSTANTS[name] if name in _CONSTANTS else values[name]
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_value(element, values) for element in elements]
        case ast.BoolOp(op=ast.And(), values=parts):
            return all(_value(part, values) for part in parts)
        case ast.BoolOp(values=parts):
            return any(_value(part, values) for part in parts)
        case ast.UnaryOp(op=op, operand=operand):
            return _UNARY[type(op)](_value(operand, values))
        case ast.BinOp(left=left, op=op, right=right):
            return _ARITHMETIC[type(op)](_number(_value(left, values)), _number(_value(right, values)))
        case ast.Compare(left=left, ops=ops, comparators=rest):
            return _compared([_value(side, values) for side in (left, *rest)], ops)
    raise AssertionError(f"{node} passed the check")


def _compared(sides: list[Any], ops: list[ast.cmpop]) -> bool:
    pairs = zip(sides, ops, sides[1:], strict=False)
    return all(_COMPARISONS[type(op)](left, right) for left, op, right in pairs)


def _number(value: Any) -> float:
    """`value`, which must be a number: a text times a number would be a longer text."""
    if not isinstance(value, (int, float)):
        raise TypeError(f"{value!r} is not a number")
    return value
