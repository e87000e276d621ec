"""Compares and calculates: values with a literal, or values with values."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.query.traceql.engine.values import Bools, Ints, Kind, Values, matching_texts
from frazil.query.traceql.parse.names import NUMERIC, Type
from frazil.query.traceql.parse.tree import Static
from frazil.query.traceql.parse.type_rules import REGEX

_SYMBOLS: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ARROW = {
    "=": pc.equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_TURNED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_CODED = {Type.BOOLEAN: Kind.BOOLEAN, Type.STATUS: Kind.STATUS, Type.KIND: Kind.KIND}


def turned(symbol: str) -> str:
    """Returns the operator that says the same with its sides exchanged."""
    return _TURNED.get(symbol, symbol)


def compare_with(symbol: str, values: Values, literal: Static, *, exact: bool = False) -> Bools:
    """Compares values with a literal. Nil, and what is of another type, is false.

    With `exact`, integers and floats are different types.
    """
    if literal.type in NUMERIC:
        found = _numbers_with(symbol, values, literal, exact)
    elif literal.type is Type.STRING:
        found = _texts_with(symbol, values, str(literal.value))
    elif literal.type in _CODED:
        same = values.kinds == _CODED[literal.type]
        found = same & _SYMBOLS[symbol](values.ints, Values.of_static(literal).ints[0])
    else:
        return np.zeros(len(values), bool)
    for place in np.flatnonzero(values.kinds == Kind.ARRAY).tolist():
        found[place] = _any_element(symbol, values.texts[place].as_py(), literal)
    return found


def _numbers_with(symbol: str, values: Values, literal: Static, exact: bool) -> Bools:
    assert isinstance(literal.value, int | float)
    compare = _SYMBOLS[symbol]
    whole, broken = values.whole, values.kinds == Kind.FLOAT
    if exact and literal.type is Type.FLOAT:
        whole = np.zeros(len(values), bool)
    elif exact:
        broken = whole & False
    found: Bools = np.zeros(len(values), bool)
    if whole.any():
        found |= whole & compare(values.ints, literal.value)
    if broken.any():
        found |= broken & compare(values.floats, float(literal.value))
    return found


def _texts_with(symbol: str, values: Values, text: str) -> Bools:
    if symbol in REGEX:
        found = pc.match_substring_regex(values.texts, whole_match(text))
        return matching_texts(values, pc.invert(found) if symbol == "!~" else found)
    return matching_texts(values, _ARROW[symbol](values.texts, pa.scalar(text, pa.string())))


def whole_match(pattern: str) -> str:
    """Returns an expression that matches whole texts; a point matches a new line too."""
    return f"^(?s:{pattern})$"


def elements(text: str) -> list[Any]:
    """Returns the elements of an array, which are all of one type."""
    found: list[Any] = json.loads(text)
    return found


def _any_element(symbol: str, text: str, literal: Static) -> bool:
    """Tells whether the comparison is true for one element. That is so for != too, as Tempo answers."""
    for element in elements(text):
        match element, literal.type:
            case str(), Type.STRING:
                one = Values.of_texts(pa.array([element]))
            case bool(), Type.BOOLEAN:
                one = Values.of_ints(np.array([element]), Kind.BOOLEAN)
            case int(), Type.INT | Type.FLOAT | Type.DURATION if not isinstance(element, bool):
                one = Values.of_ints(np.array([element], np.int64), Kind.INT)
            case float(), Type.INT | Type.FLOAT | Type.DURATION:
                one = Values.of_floats(np.array([element]), np.ones(1, bool))
            case _:
                continue
        if compare_with(symbol, one, literal)[0]:
            return True
    return False


def compare(symbol: str, left: Values, right: Values) -> Bools:
    """Compares values row by row. Nil is never equal, nor different."""
    test = _SYMBOLS[symbol]
    found: Bools = left.whole & right.whole & test(left.ints, right.ints)
    mixed = left.numeric & right.numeric & ~(left.whole & right.whole)
    if mixed.any():
        found |= mixed & test(left.numbers, right.numbers)
    same = left.kinds == right.kinds
    if (same & (left.kinds == Kind.STRING)).any():
        found |= matching_texts(left, _ARROW[symbol](left.texts, right.texts)) & same
    for kind in _CODED.values():
        found |= same & (left.kinds == kind) & test(left.ints, right.ints)
    for one, other, sign in ((left, right, symbol), (right, left, turned(symbol))):
        for place in np.flatnonzero((one.kinds == Kind.ARRAY) & (other.kinds != Kind.ARRAY)).tolist():
            found[place] = _any_element(sign, one.texts[place].as_py(), other.static(place))
    return found


def negate(values: Values) -> Values:
    kinds = np.where(values.numeric, values.kinds, np.uint8(Kind.NIL))
    with np.errstate(over="ignore"):
        return Values(kinds, -values.ints, -values.floats, pa.nulls(len(values), pa.string()))


def calculate(symbol: str, left: Values, right: Values) -> Values:
    """Calculates row by row: integers stay integers. What cannot be calculated is nil, as a division by zero."""
    numeric = left.numeric & right.numeric
    whole = left.whole & right.whole
    count = len(left)
    ints, kinds = np.zeros(count, np.int64), np.zeros(count, np.uint8)
    floats = np.zeros(count)
    if whole.any():
        ints, known = _whole(symbol, left.ints, right.ints)
        spans = (left.kinds == Kind.DURATION) | (right.kinds == Kind.DURATION)
        kinds = np.where(whole & known, np.where(spans, np.uint8(Kind.DURATION), np.uint8(Kind.INT)), kinds)
    mixed = numeric & ~whole
    if mixed.any():
        floats = _broken(symbol, left.numbers, right.numbers)
        kinds = np.where(mixed & ~np.isnan(floats), np.uint8(Kind.FLOAT), kinds)
    return Values(kinds, ints, floats, pa.nulls(count, pa.string()))


def _whole(symbol: str, left: Ints, right: Ints) -> tuple[Ints, Bools]:
    known = np.ones(len(left), bool)
    with np.errstate(all="ignore"):
        match symbol:
            case "+":
                return left + right, known
            case "-":
                return left - right, known
            case "*":
                return left * right, known
            case "^":
                power = np.power(left.astype(float), right.astype(float))
                fits = np.abs(power) < 2.0**63
                return np.where(fits, power, 0).astype(np.int64), fits
        known = right != 0
        divisor = np.where(known, right, 1)
        quotient = np.abs(left) // np.abs(divisor) * np.sign(left) * np.sign(divisor)
        return (quotient if symbol == "/" else left - quotient * divisor), known


def _broken(symbol: str, left: Any, right: Any) -> Any:
    with np.errstate(all="ignore"):
        match symbol:
            case "+":
                return left + right
            case "-":
                return left - right
            case "*":
                return left * right
            case "/":
                return np.where(right == 0, np.nan, left / right)
            case "%":
                return np.where(right == 0, np.nan, np.fmod(left, right))
        return np.power(left, right)
