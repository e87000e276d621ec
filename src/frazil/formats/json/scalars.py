"""Checks and converts JSON scalars, which are neither objects nor arrays, against Arrow types."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from frazil.formats.json.logical_types import from_physical, physical_type

_INT64 = range(-(1 << 63), 1 << 63)
_NUMBERS = (int, Decimal)
_LARGE = 10**300
_SHOWN_CHARACTERS = 80


class Misfit(Exception):
    """Raised when a text is not JSON, or a value does not fit its type. The message says where and why."""


def widen_scalar(kind: pa.DataType, value: Any, path: str) -> pa.DataType:
    """Returns the type that holds this value and all before it, whose type is `kind`. Raises `Misfit` if there is
    none."""
    found: pa.DataType | None = None
    if isinstance(value, bool):
        found = pa.bool_()
    elif isinstance(value, int):
        if types.is_float64(kind) and math.isfinite(_double(value)):
            found = kind
        elif value in _INT64:
            found = pa.int64()
        elif types.is_null(kind):
            raise Misfit(
                f"field {shown(path)} is {shown(value)}, which is beyond int64; give the column a type that "
                f"holds it, such as decimal128(20, 0)"
            )
    elif isinstance(value, Decimal):
        if not math.isfinite(_double(value)):
            raise Misfit(f"field {shown(path)} is {shown(value)}, which is beyond double")
        found = pa.float64()
    elif isinstance(value, str):
        check_text(value, path)
        found = pa.string()
    if found is not None and found.equals(kind):
        return kind
    if found is not None and (types.is_null(kind) or (types.is_int64(kind) and types.is_float64(found))):
        return found
    raise Misfit(mismatch(value, kind, path))


def convert_scalar(value: Any, kind: pa.DataType, path: str) -> Any:
    """Converts a scalar to what Arrow takes for the physical type of `kind`. Raises `Misfit` if it does not fit."""
    given = value
    if types.is_boolean(kind):
        fits = isinstance(value, bool)
    elif types.is_integer(kind) or types.is_duration(kind):
        unsigned = types.is_unsigned_integer(kind)
        bits = 64 if types.is_duration(kind) else kind.bit_width
        low, high = (0, 1 << bits) if unsigned else (-(1 << bits - 1), 1 << bits - 1)
        fits = isinstance(value, int) and not isinstance(value, bool) and low <= value < high
    elif types.is_floating(kind):
        fits = isinstance(value, int | Decimal) and not isinstance(value, bool)
        value = _double(value) if fits else value
        with np.errstate(over="ignore"):
            fits = fits and math.isfinite(value if types.is_float64(kind) else np.float32(value))
    elif types.is_decimal(kind):
        fits = isinstance(value, int | Decimal | str) and not isinstance(value, bool)
        if isinstance(value, str):
            check_text(value, path)
        value = _decimal(str(value), kind, path) if fits else value
    elif types.is_nested(kind):
        fits = False
    else:
        fits = isinstance(value, str)
        if fits:
            check_text(value, path)
            if not types.is_string(kind):
                _check_restored(value, kind, path)
    if not fits:
        raise Misfit(mismatch(given, kind, path))
    return value


def scalar_test(kind: pa.DataType, trusting: bool) -> Callable[[Any], bool]:
    """Returns a quick test of whether a value fits the type. The test is false when in doubt, unless it is
    `trusting`."""
    if types.is_int64(kind):
        return lambda value: value is None or (type(value) is int and value in _INT64)
    if types.is_string(kind) or (trusting and types.is_string(physical_type(kind))):
        return lambda value: value is None or (type(value) is str and value.isascii())
    if types.is_boolean(kind):
        return lambda value: value is None or type(value) is bool
    if types.is_float64(kind):
        return lambda value: value is None or (type(value) in _NUMBERS and -_LARGE < value < _LARGE)
    return lambda value: value is None


def _decimal(text: str, kind: pa.DataType, path: str) -> Decimal:
    try:
        array = pa.array([text], pa.string()).cast(kind)
        array.validate(full=True)
    except pa.ArrowInvalid:
        raise Misfit(mismatch(text, kind, path)) from None
    value: Decimal = array[0].as_py()
    return value


def _check_restored(text: str, kind: pa.DataType, path: str) -> None:
    try:
        from_physical(pa.array([text], pa.string()), kind, spare=False)
    except pa.ArrowInvalid:
        raise Misfit(mismatch(text, kind, path)) from None


def _double(value: int | Decimal) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def check_text(text: str, path: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Misfit(f"field {shown(path)} is {shown(text)}, which has half of a character") from None


def mismatch(value: Any, kind: pa.DataType, path: str) -> str:
    return f"field {shown(path)} should be {kind}, but is {shown(value)}"


def shown(value: Any) -> str:
    text = str(value) if isinstance(value, Decimal) else json.dumps(value, default=str)
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
