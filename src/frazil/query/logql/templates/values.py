"""Says what templates do with values: how they print, which are true, and how they become numbers."""

from __future__ import annotations

import math
from typing import Any, NoReturn

from frazil.query.logql.go_numbers import parse_float
from frazil.query.logql.templates.times import GoTime

_LARGE = 6
"""Go prints floats with an exponent from this one on."""


class ExecutionFault(ValueError):
    """Raised when a template fails on a row."""


class NoValue:
    """Is what a key gives that a map of mixed values does not have."""

    def __repr__(self) -> str:
        return "<no value>"


NO_VALUE = NoValue()


def fail(reason: str) -> NoReturn:
    raise ExecutionFault(reason)


def printed(value: object) -> str:
    """Returns the text that Go's `%v` gives."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(value)
        case float():
            return printed_float(value)
        case None:
            return "<no value>"
        case list():
            return f"[{' '.join(_within(each) for each in value)}]"
        case dict():
            return f"map[{' '.join(f'{key}:{_within(value[key])}' for key in sorted(value))}]"
        case _:
            return str(value)


def _within(value: object) -> str:
    return "<nil>" if value is None else printed(value)


def printed_float(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    if value == 0:
        return "-0" if math.copysign(1, value) < 0 else "0"
    digits, exponent = f"{value:.17e}".split("e")
    shortest = repr(value)
    if "e" in shortest:
        digits, exponent = shortest.split("e")
    power = int(exponent)
    if -4 <= power < _LARGE:
        if "e" not in shortest:
            return shortest.removesuffix(".0")
        return f"{value:.0f}" if power > 0 else f"{value:.25f}".rstrip("0")
    if "e" not in shortest:
        significant = shortest.replace(".", "").lstrip("-0").rstrip("0") or "0"
        sign = "-" if value < 0 else ""
        digits = f"{sign}{significant[0]}.{significant[1:]}" if len(significant) > 1 else sign + significant
    return f"{digits}e{'-' if power < 0 else '+'}{abs(power):02d}"


def truth(value: object) -> bool:
    """Returns whether a condition holds: empty texts, zeros and nothing do not."""
    if isinstance(value, GoTime):
        return True
    return not isinstance(value, NoValue) and bool(value)


def kind_of(value: object) -> str:
    match value:
        case bool():
            return "bool"
        case int():
            return "int"
        case float():
            return "float64"
        case str():
            return "string"
        case list():
            return "[]interface {}"
        case dict():
            return "map[string]interface {}"
        case GoTime():
            return "time.Time"
    return "<nil>"


def as_int(value: object) -> int:
    """Casts as the functions for numbers do: what is no number is zero."""
    match value:
        case bool():
            return int(value)
        case int():
            return value
        case float():
            return int(value) if math.isfinite(value) else 0
        case str():
            return _int_of_text(value)
    return 0


def _int_of_text(text: str) -> int:
    base = 8 if text.lstrip("+-")[:1] == "0" and text.lstrip("+-")[1:].isdecimal() else 0
    try:
        return int(text, base)
    except ValueError:
        pass
    try:
        return int(parse_float(text))
    except (ValueError, OverflowError):
        return 0


def as_float(value: object) -> float:
    match value:
        case bool():
            return float(value)
        case int() | float():
            return float(value)
        case str():
            try:
                return parse_float(value)
            except ValueError:
                return 0.0
    return 0.0


def wrapped_int(value: int) -> int:
    """Returns the number as it is after it overflowed 64 bits."""
    return (value + 2**63) % 2**64 - 2**63


def compare_basic(left: Any, right: Any) -> None:
    """Raises an error if two values cannot be compared with each other."""
    kinds = kind_of(left), kind_of(right)
    if kinds[0] != kinds[1] and NO_VALUE not in (left, right) and None not in (left, right):
        names = ["float" if kind == "float64" else kind for kind in kinds]
        fail(f"incompatible types for comparison: {names[0]} and {names[1]}")
