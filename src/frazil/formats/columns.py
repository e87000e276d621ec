"""Derives the columns of rows from the type of their values, and refuses types that no table can store."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as types

from frazil.errors import SchemaMismatch, SchemaUnsupported
from frazil.formats.column_names import VALUE, column_of
from frazil.log.schema.columns import check_columns


def columns_of(kind: pa.DataType) -> pa.Schema:
    """Returns the columns of rows whose values have this type: one per field of a struct, else the column `value`."""
    if types.is_struct(kind):
        return pa.schema([field.with_name(column_of(field.name)) for field in kind.fields])
    return pa.schema([pa.field(VALUE, kind)])


def check_kind(kind: pa.DataType, most: int) -> None:
    """Raises `SchemaUnsupported` if a topic may not have these columns, or if there are more than `most`."""
    try:
        check_columns(columns_of(kind), most)
    except SchemaMismatch as error:
        raise SchemaUnsupported(str(error).rstrip(".")) from error
