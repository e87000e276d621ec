"""Turns the bounds of a column in many files, which manifests store as bytes, into one Arrow array."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.conversions import from_bytes
from pyiceberg.types import (
    BooleanType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
)

from frazil.lake.schema.arrow import arrow_type

_FIXED: dict[type[PrimitiveType], str] = {
    IntegerType: "<i4",
    DateType: "<i4",
    LongType: "<i8",
    TimeType: "<i8",
    TimestampType: "<i8",
    TimestamptzType: "<i8",
    FloatType: "<f4",
    DoubleType: "<f8",
}
_NARROWER: dict[type[PrimitiveType], PrimitiveType] = {LongType: IntegerType(), DoubleType: FloatType()}
"""Files that were written before a column became wider have bounds of its former type."""


def bounds_array(raw: pa.BinaryArray, kind: PrimitiveType) -> pa.Array:
    """Returns the bounds as values of the column's type. They are null where a file has none, or none that are known
    to be of this type."""
    target = arrow_type(kind)
    if isinstance(target, pa.BaseExtensionType):
        target = target.storage_type
    code = _FIXED.get(type(kind))
    if code is not None:
        return _fixed(raw, np.dtype(code), kind).view(target)
    if isinstance(kind, StringType):
        return pa.array([_text(value) for value in raw.to_pylist()], target)
    return pa.array([_value(value, kind) for value in raw.to_pylist()], target)


def _fixed(raw: pa.BinaryArray, code: np.dtype[np.generic], kind: PrimitiveType) -> pa.Array:
    """Returns numbers of the same width. Most bounds have it, and are read all at once."""
    lengths = pc.binary_length(raw).fill_null(0).to_numpy()
    known = lengths == code.itemsize
    whole = raw if known.all() else pc.if_else(pa.array(known), raw, pa.scalar(bytes(code.itemsize), pa.binary()))
    numbers = pa.array(np.frombuffer(b"".join(whole.to_pylist()), code), mask=~known)
    narrower = _NARROWER.get(type(kind))
    if narrower is None or not (~known & (lengths > 0)).any():
        return numbers
    values = numbers.to_pylist()
    for at in np.flatnonzero(~known & (lengths > 0)).tolist():
        values[at] = _value(raw[at].as_py(), narrower)
    return pa.array(values, numbers.type)


def _text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _value(value: bytes | None, kind: PrimitiveType) -> object:
    if value is None:
        return None
    try:
        found = from_bytes(kind, value)
    # PyIceberg raises errors of several kinds for bytes of another type.
    except Exception:  # noqa: BLE001 - an unknown bound only means that the file is read
        return None
    if isinstance(kind, BooleanType):
        return bool(found)
    return found.bytes if hasattr(found, "bytes") else found
