"""Converts Arrow types to Iceberg types that Spark, PyIceberg, DuckDB and Polars all read.

Iceberg lacks small and unsigned integers. Spark lacks Iceberg's `time`, and nanoseconds need a newer table format
than most readers know. Such values get the nearest type that loses nothing, with a note that says what they mean.
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa
import pyarrow.types as types
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
)

from frazil.log.schema.columns import MOST_DIGITS

_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}
_SIMPLE: dict[pa.DataType, IcebergType] = {
    pa.bool_(): BooleanType(),
    pa.int8(): IntegerType(),
    pa.int16(): IntegerType(),
    pa.int32(): IntegerType(),
    pa.int64(): LongType(),
    pa.uint8(): IntegerType(),
    pa.uint16(): IntegerType(),
    pa.uint32(): LongType(),
    pa.uint64(): DecimalType(20, 0),
    pa.float16(): FloatType(),
    pa.float32(): FloatType(),
    pa.float64(): DoubleType(),
    pa.date32(): DateType(),
    pa.date64(): DateType(),
    pa.string(): StringType(),
    pa.large_string(): StringType(),
    pa.string_view(): StringType(),
    pa.binary(): BinaryType(),
    pa.large_binary(): BinaryType(),
    pa.binary_view(): BinaryType(),
}
# Field ids inside a type are placeholders. They are assigned when the whole schema is known.
_NO_ID = 0


class Unmappable(Exception):
    """Raised when no Iceberg type holds the values of an Arrow type; the message names both place and type."""


class Converted(NamedTuple):
    kind: IcebergType
    note: str | None
    """This says what the values mean, if the type alone does not say it."""


def convert(kind: pa.DataType, path: str) -> Converted | None:
    """Returns the Iceberg type for values of an Arrow type, or None if the type is null and has no values yet."""
    if kind in _SIMPLE:
        return Converted(_SIMPLE[kind], None)
    if types.is_null(kind):
        return None
    if isinstance(kind, pa.BaseExtensionType):
        return convert(kind.storage_type, path)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return convert(kind.value_type, path)
    if types.is_timestamp(kind):
        if kind.unit == "ns":
            return Converted(LongType(), f"nanoseconds since 1970{' UTC' if kind.tz else ''}")
        return Converted(TimestamptzType() if kind.tz else TimestampType(), None)
    if types.is_time(kind):
        return Converted(LongType(), f"{_UNITS[_time_unit(kind)]} since midnight")
    if types.is_duration(kind):
        return Converted(LongType(), f"{_UNITS[kind.unit]}")
    if types.is_decimal(kind) and 0 <= kind.scale <= kind.precision <= MOST_DIGITS:
        return Converted(DecimalType(kind.precision, kind.scale), None)
    if types.is_fixed_size_binary(kind):
        return Converted(FixedType(kind.byte_width), None)
    if types.is_nested(kind):
        return _convert_nested(kind, path)
    raise Unmappable(f"column {path!r} is {kind}, which Iceberg has no type for")


def is_nanoseconds(kind: pa.DataType) -> bool:
    return bool(types.is_timestamp(kind) and kind.unit == "ns")


def convert_field(field: pa.Field, path: str, required: bool) -> NestedField | None:
    converted = convert(field.type, path)
    if converted is None:
        return None
    return NestedField(_NO_ID, field.name, converted.kind, required=required, doc=converted.note)


def _convert_nested(kind: pa.DataType, path: str) -> Converted | None:
    if types.is_struct(kind):
        fields = [convert_field(field, f"{path}.{field.name}", not field.nullable) for field in kind.fields]
        present = [field for field in fields if field is not None]
        return Converted(StructType(*present), None) if present else None
    if types.is_map(kind):
        key, value = convert(kind.key_type, f"{path}.key"), convert(kind.item_type, f"{path}.value")
        if key is None or value is None:
            return None
        mapping = MapType(_NO_ID, key.kind, _NO_ID, value.kind, value_required=not kind.item_field.nullable)
        notes = [f"{part}: {note}" for part, note in (("keys", key.note), ("values", value.note)) if note]
        return Converted(mapping, "; ".join(notes) or None)
    if hasattr(kind, "value_field"):
        item = convert(kind.value_type, f"{path}.element")
        if item is None:
            return None
        items = ListType(_NO_ID, item.kind, element_required=not kind.value_field.nullable)
        return Converted(items, f"items: {item.note}" if item.note else None)
    raise Unmappable(f"column {path!r} is {kind}, which Iceberg has no type for")


def _time_unit(kind: pa.DataType) -> str:
    return str(kind).partition("[")[2].rstrip("]")
