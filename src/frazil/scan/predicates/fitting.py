"""Expresses the values of a predicate in the types of its columns, without changing what is compared.

A value that lies between two values of the column's type is expressed by these: `amount > 1.5` is `amount >= 2` for
integers. A value outside the type's range gives the same result for all values. Python's `float` is compared exactly;
a `Decimal` or an `int` is rounded to the nearest number where the column has floating-point numbers.

Text is accepted for every type, as people write it: `'2024-01-01'` for a date, for example. An `int` stands for
the number that is stored where the column is a date (days), a time or a timestamp.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyarrow.types import (
    is_binary,
    is_binary_view,
    is_boolean,
    is_date32,
    is_decimal,
    is_fixed_size_binary,
    is_floating,
    is_integer,
    is_large_binary,
    is_null,
    is_signed_integer,
    is_string_view,
    is_time,
    is_timestamp,
)

from frazil.scan.predicates.terms import is_text
from frazil.scan.predicates.tree import Operator, Value

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LONGEST = 400
"""A decimal number with an exponent beyond this is as good as infinite, or as nothing, for every type."""


@dataclass(frozen=True)
class Fitted:
    """Is a comparison of values of a column with a scalar. The values are of `comparable_type`, as is the scalar."""

    operator: Operator
    value: pa.Scalar


def comparable_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type in which values are compared. Casting them to it changes neither values nor order."""
    if isinstance(kind, pa.BaseExtensionType):
        return comparable_type(kind.storage_type)
    if is_floating(kind):
        return pa.float64()
    if is_fixed_size_binary(kind) or is_binary_view(kind):
        return pa.binary()
    return pa.string() if is_string_view(kind) else kind


def fit(operator: Operator, value: Value, kind: pa.DataType) -> Fitted | bool:
    """Returns the comparison for a column of this type, or its result if that is the same for all its values.

    Raises `ValueError` if the value cannot be compared with the column.
    """
    if is_null(kind):
        return False
    if is_floating(kind):
        return _fit_float(operator, value, kind)
    if is_text(kind) or _is_bytes(kind) or is_boolean(kind):
        return Fitted(operator, pa.scalar(_plain(value, kind), comparable_type(kind)))
    return _fit_discrete(operator, _units(value, kind), kind)


def fit_all(values: Iterable[Value], kind: pa.DataType) -> pa.Array:
    """Returns those of the values that a column of this type can have, in its `comparable_type`."""
    fitted = (fit("==", value, kind) for value in values)
    found = pa.array([each.value for each in fitted if isinstance(each, Fitted)], comparable_type(kind))
    if is_floating(kind) and any(value == 0 for value in found.to_pylist()):
        # Arrow looks values up by their bits, and there are two zeros.
        found = pa.concat_arrays([found, pa.array([0.0, -0.0])])
    return found


def _fit_float(operator: Operator, value: Value, kind: pa.DataType) -> Fitted | bool:
    if isinstance(value, str):
        value = _number(value)
    if not isinstance(value, int | float | Decimal) or isinstance(value, bool):
        raise ValueError(f"{_described(value)} cannot be compared with {kind}")
    try:
        number = float(value)
        if not isinstance(value, float):
            number = pa.scalar(number).cast(kind).as_py()
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    return operator == "!=" if math.isnan(number) else Fitted(operator, pa.scalar(number, pa.float64()))


def _fit_discrete(operator: Operator, units: Fraction | float, kind: pa.DataType) -> Fitted | bool:
    """Compares a column that is stored as integers with a number in its units."""
    lowest, highest = _range(kind)
    if isinstance(units, float) and math.isnan(units):
        return operator == "!="
    if units > highest:
        return operator in ("<", "<=", "!=")
    if units < lowest:
        return operator in (">", ">=", "!=")
    below, above = math.floor(units), math.ceil(units)
    if below == above:
        return Fitted(operator, _scalar(below, kind))
    if operator in ("==", "!="):
        return operator == "!="
    return Fitted("<=", _scalar(below, kind)) if operator in ("<", "<=") else Fitted(">=", _scalar(above, kind))


def _range(kind: pa.DataType) -> tuple[int, int]:
    if is_decimal(kind):
        most = 10**kind.precision - 1
        return -most, most
    bits = kind.bit_width
    return (
        (0, 2**bits - 1)
        if is_integer(kind) and not is_signed_integer(kind)
        else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    )


def _scalar(units: int, kind: pa.DataType) -> pa.Scalar:
    if is_decimal(kind):
        digits = tuple(map(int, str(abs(units))))
        return pa.scalar(Decimal((int(units < 0), digits, -kind.scale)), kind)
    return (
        pa.scalar(units, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
        if not is_integer(kind)
        else pa.scalar(units, kind)
    )


def _units(value: Value, kind: pa.DataType) -> Fraction | float:
    """Returns the value as a number in the units that the column is stored in."""
    if isinstance(value, bool | bytes):
        pass
    elif is_integer(kind) or is_decimal(kind):
        number = _number(value) if isinstance(value, str) else value
        if isinstance(number, int | float | Decimal):
            exact = _exact(number)
            return exact * 10**kind.scale if is_decimal(kind) and isinstance(exact, Fraction) else exact
    elif isinstance(value, int) and (is_date32(kind) or is_timestamp(kind) or is_time(kind)):
        return Fraction(value)
    elif is_date32(kind):
        return _days(value)
    elif is_timestamp(kind):
        return _timestamp(value, kind)
    elif is_time(kind):
        return _time(value, kind)
    raise ValueError(f"{_described(value)} cannot be compared with {kind}")


def _exact(number: int | float | Decimal) -> Fraction | float:
    if isinstance(number, float):
        return Fraction(number) if math.isfinite(number) else number
    if isinstance(number, Decimal):
        if not number.is_finite():
            return float(number)
        if number and abs(number.adjusted()) > _LONGEST:
            sign = -1 if number < 0 else 1
            return sign * math.inf if number.adjusted() > 0 else Fraction(sign, 10**_LONGEST)
    return Fraction(number)


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation as error:
        raise ValueError(f"{text!r} is not a number") from error


def _days(value: Value) -> Fraction:
    if isinstance(value, str):
        value = date.fromisoformat(value)
    if isinstance(value, datetime) and value.tzinfo is None:
        return Fraction(_microseconds(value.replace(tzinfo=UTC) - _EPOCH), 86_400_000_000)
    if isinstance(value, date) and not isinstance(value, datetime):
        return Fraction((value - _EPOCH.date()).days)
    raise ValueError(f"{_described(value)} cannot be compared with a date")


def _timestamp(value: Value, kind: pa.DataType) -> Fraction:
    if isinstance(value, str):
        finest = pa.timestamp("ns" if kind.unit == "ns" else "us", kind.tz)
        parsed = pa.scalar(value).cast(finest)
        return Fraction(parsed.value * _NANOSECONDS[finest.unit], _NANOSECONDS[kind.unit])
    if isinstance(value, datetime):
        if (value.tzinfo is None) != (kind.tz is None):
            raise ValueError(f"{value} {'has no' if value.tzinfo is None else 'has a'} time zone, unlike {kind}")
        moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value
        return Fraction(_microseconds(moment - _EPOCH) * 1000, _NANOSECONDS[kind.unit])
    if isinstance(value, date) and kind.tz is None:
        return Fraction((value - _EPOCH.date()).days * 86_400 * 10**9, _NANOSECONDS[kind.unit])
    raise ValueError(f"{_described(value)} cannot be compared with {kind}")


def _time(value: Value, kind: pa.DataType) -> Fraction:
    if isinstance(value, str):
        value = time.fromisoformat(value)
    if not isinstance(value, time) or value.tzinfo is not None:
        raise ValueError(f"{_described(value)} cannot be compared with {kind}")
    since = timedelta(hours=value.hour, minutes=value.minute, seconds=value.second, microseconds=value.microsecond)
    return Fraction(_microseconds(since) * 1000, _NANOSECONDS[kind.unit])


def _microseconds(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1)


def _is_bytes(kind: pa.DataType) -> bool:
    storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    return bool(
        is_binary(storage) or is_large_binary(storage) or is_binary_view(storage) or is_fixed_size_binary(storage)
    )


def _plain(value: Value, kind: pa.DataType) -> Any:
    """Returns the value for a column of text, bytes or booleans."""
    if is_text(kind):
        if isinstance(value, str):
            return value
    elif is_boolean(kind):
        if isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
    elif isinstance(value, bytes):
        return value
    elif isinstance(value, str):
        return UUID(value).bytes if kind == pa.uuid() else value.encode()
    raise ValueError(f"{_described(value)} cannot be compared with {kind}")


def _described(value: Value) -> str:
    return f"{value!r}" if isinstance(value, bool | int | float | str | bytes) else f"{type(value).__name__} {value}"
