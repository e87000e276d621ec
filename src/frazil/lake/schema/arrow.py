"""Converts Iceberg schemas to Arrow schemas, with the id of each field in the metadata that Parquet's writer reads.

Strings, lists and maps have 32-bit offsets like the rows of topics, so buffers can be used without copying them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyiceberg.schema import Schema
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
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from frazil.errors import TableSchemaMismatch

FIELD_ID = b"PARQUET:field_id"

_SIMPLE: dict[IcebergType, pa.DataType] = {
    BooleanType(): pa.bool_(),
    IntegerType(): pa.int32(),
    LongType(): pa.int64(),
    FloatType(): pa.float32(),
    DoubleType(): pa.float64(),
    DateType(): pa.date32(),
    TimeType(): pa.time64("us"),
    TimestampType(): pa.timestamp("us"),
    TimestamptzType(): pa.timestamp("us", "UTC"),
    TimestampNanoType(): pa.timestamp("ns"),
    TimestamptzNanoType(): pa.timestamp("ns", "UTC"),
    StringType(): pa.string(),
    BinaryType(): pa.binary(),
    UUIDType(): pa.uuid(),
}


def arrow_schema(schema: Schema) -> pa.Schema:
    return pa.schema([arrow_field(field) for field in schema.fields])


def plain_schema(schema: Schema) -> pa.Schema:
    """Converts a schema to Arrow without field ids. Every field is nullable."""
    return pa.schema([(field.name, _plain(arrow_type(field.field_type))) for field in schema.fields])


def _plain(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, _plain(each.type)) for each in kind.fields])
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(_plain(kind.value_type))
    return kind


def arrow_field(field: NestedField) -> pa.Field:
    return pa.field(field.name, arrow_type(field.field_type), field.optional, {FIELD_ID: str(field.field_id)})


def arrow_type(kind: IcebergType) -> pa.DataType:
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    match kind:
        case DecimalType():
            return pa.decimal128(kind.precision, kind.scale)
        case FixedType():
            return pa.binary(len(kind))
        case StructType():
            return pa.struct([arrow_field(field) for field in kind.fields])
        case ListType():
            return pa.list_(arrow_field(kind.element_field))
        case MapType():
            return pa.map_(arrow_field(kind.key_field), arrow_field(kind.value_field))
    raise TableSchemaMismatch(f"The table has a column of type {kind}, which Frazil does not write.")


def plain_values(array: Any) -> Any:
    """Returns the values without Arrow's extension type (which UUIDs have) and without dictionary encoding."""
    if isinstance(array, pa.DictionaryArray):
        return array.dictionary_decode()
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def column_getter(schema: Schema, field_id: int) -> Callable[[Any], Any]:
    """Returns a function that gets the values of a field, perhaps inside structs, from a table or batch of rows."""
    names = _path(list(schema.fields), field_id)
    if names is None:
        raise TableSchemaMismatch(
            f"The table is partitioned or sorted by field {field_id}, which is not a column or part of a struct. "
            f"Change its partition spec or sort order."
        )

    def get(rows: Any) -> Any:
        column = rows.column(names[0])
        if isinstance(column, pa.ChunkedArray):
            column = column.combine_chunks()
        for name in names[1:]:
            parent = column
            # A field of a null struct is null: `flatten` gives fields the nulls of their parent.
            column = parent.flatten()[parent.type.get_field_index(name)]
        return plain_values(column)

    return get


def _path(fields: list[NestedField], field_id: int) -> list[str] | None:
    for field in fields:
        if field.field_id == field_id:
            return [field.name]
        if isinstance(field.field_type, StructType):
            inner = _path(list(field.field_type.fields), field_id)
            if inner is not None:
                return [field.name, *inner]
    return None
