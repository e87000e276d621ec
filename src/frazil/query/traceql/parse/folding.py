"""Computes what is constant in a query while it is parsed. What cannot be computed stays as it is written."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from frazil.query.traceql.parse.literals import LEAST, MOST
from frazil.query.traceql.parse.names import NUMERIC, Type
from frazil.query.traceql.parse.tree import Static, Value
from frazil.query.traceql.parse.type_rules import LOGICAL, REGEX, operator_fits, types_match, unary_fits

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def fold_unary(symbol: str, operand: Static, at: int) -> Static | None:
    if not unary_fits(symbol, operand.type):
        return None
    if symbol == "!":
        return Static(Type.BOOLEAN, not operand.value, at=at)
    assert isinstance(operand.value, int | float)
    return _static(operand.type, -operand.value, at)


def fold_binary(symbol: str, left: Static, right: Static, at: int) -> Static | None:
    """Returns None where the types do not fit, or the result is no number."""
    types = (left.type, right.type)
    if Type.NIL in types or symbol in REGEX or not types_match(*types) or not operator_fits(symbol, *types):
        return None
    if symbol in LOGICAL:
        both = (bool(left.value), bool(right.value))
        return Static(Type.BOOLEAN, all(both) if symbol == "&&" else any(both), at=at)
    if symbol in _COMPARE:
        one, other = ((each.value.encode() if isinstance(each.value, str) else each.value) for each in (left, right))
        return Static(Type.BOOLEAN, _COMPARE[symbol](one, other), at=at)
    if Type.DURATION in types:
        return None
    number = calculate(symbol, left.value, right.value)
    return None if number is None else _static(Type.FLOAT if Type.FLOAT in types else Type.INT, number, at)


def calculate(symbol: str, left: Value, right: Value) -> int | float | None:
    """Calculates with integers as Go does: what is left of a division is cut off."""
    assert isinstance(left, int | float)
    assert isinstance(right, int | float)
    try:
        match symbol:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
            case "^":
                return _power(left, right)
        if right == 0:
            return None
        if isinstance(left, float) or isinstance(right, float):
            return left / right if symbol == "/" else math.fmod(left, right)
        quotient = abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)
        return quotient if symbol == "/" else left - quotient * right
    except (OverflowError, ValueError, ZeroDivisionError):
        return None


def _power(left: float, right: float) -> float | None:
    found = math.pow(left, right)
    if isinstance(left, int) and isinstance(right, int):
        return int(found) if abs(found) < 2**63 else None
    return found


def _static(kind: Type, number: int | float, at: int) -> Static | None:
    if kind is Type.FLOAT:
        return Static(kind, float(number), at=at) if math.isfinite(number) else None
    assert kind in NUMERIC
    return Static(kind, int(number), at=at) if LEAST <= number <= MOST else None
