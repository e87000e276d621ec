"""Has the functions of templates that work with numbers."""

from __future__ import annotations

import math
from fractions import Fraction

from frazil.query.logql.go_numbers import parse_bytes, parse_go_duration
from frazil.query.logql.templates.values import as_float, as_int, fail, wrapped_int


def add(*values: object) -> int:
    return wrapped_int(sum(map(as_int, values)))


def multiply(first: object, *others: object) -> int:
    return wrapped_int(math.prod(map(as_int, others), start=as_int(first)))


def subtract(left: object, right: object) -> int:
    return wrapped_int(as_int(left) - as_int(right))


def divide(left: object, right: object) -> int:
    dividend, divisor = as_int(left), as_int(right)
    if divisor == 0:
        fail("error calling div: runtime error: integer divide by zero")
    return wrapped_int(_truncated(dividend, divisor))


def modulo(left: object, right: object) -> int:
    dividend, divisor = as_int(left), as_int(right)
    if divisor == 0:
        fail("error calling mod: runtime error: integer divide by zero")
    return dividend - divisor * _truncated(dividend, divisor)


def _truncated(dividend: int, divisor: int) -> int:
    quotient = abs(dividend) // abs(divisor)
    return quotient if (dividend < 0) == (divisor < 0) else -quotient


def _exact(value: object) -> Fraction:
    number = as_float(value)
    return Fraction(repr(number)) if math.isfinite(number) else Fraction(0)


def add_floats(*values: object) -> float:
    """Adds decimal numbers without the errors of binary ones: 0.1 and 0.2 are 0.3."""
    return float(sum(map(_exact, values), start=Fraction(0)))


def multiply_floats(first: object, *others: object) -> float:
    return float(math.prod(map(_exact, others), start=_exact(first)))


def subtract_floats(first: object, *others: object) -> float:
    return float(_exact(first) - sum(map(_exact, others), start=Fraction(0)))


def divide_floats(first: object, *others: object) -> float:
    result = _exact(first)
    for other in others:
        divisor = _exact(other)
        if divisor == 0:
            fail("error calling divf: decimal division by 0")
        result /= divisor
    return float(result)


def largest(first: object, *others: object) -> int:
    return max(as_int(first), *map(as_int, others), as_int(first))


def smallest(first: object, *others: object) -> int:
    return min(as_int(first), *map(as_int, others), as_int(first))


def largest_float(first: object, *others: object) -> float:
    return max(as_float(first), *map(as_float, others), as_float(first))


def smallest_float(first: object, *others: object) -> float:
    return min(as_float(first), *map(as_float, others), as_float(first))


def ceil(value: object) -> float:
    return float(math.ceil(number)) if math.isfinite(number := as_float(value)) else number


def floor(value: object) -> float:
    return float(math.floor(number)) if math.isfinite(number := as_float(value)) else number


def rounded(value: object, places: int, *threshold: float) -> float:
    """Rounds half away from zero; another threshold than a half may be given."""
    number = as_float(value)
    if not math.isfinite(number):
        return number
    scale = 10.0**places
    whole = number * scale
    fraction, base = math.modf(whole)
    limit = threshold[0] if threshold else 0.5
    if fraction >= limit:
        base += 1
    elif -fraction >= limit:
        base -= 1
    return base / scale


def size(text: str) -> float:
    try:
        return float(parse_bytes(text))
    except ValueError as wrong:
        fail(f"error calling bytes: {wrong}")


def seconds(text: str) -> float:
    try:
        return parse_go_duration(text) / 1e9
    except ValueError as wrong:
        fail(f"error calling duration: {wrong}")
