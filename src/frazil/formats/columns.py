"""Schemas whose records no table can take: the fault of the records that are written with them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as types

from frazil.errors import SchemaMismatch, SchemaUnsupported
from frazil.formats.column_names import VALUE, column_of
from frazil.log.schema.columns import check_columns


def columns_of(kind: pa.DataType) -> pa.Schema:
    """The columns of rows whose values are of a type."""
    if types.is_struct(kind):
        return pa.schema([field.with_name(column_of(field.name)) for field in kind.fields])
    return pa.schema([pa.field(VALUE, kind)])


def check_kind(kind: pa.DataType, most: int) -> None:
    """Raise `SchemaUnsupported` if a topic may not have the columns of such values, or more than `most`."""
    try:
        check_columns(columns_of(kind), most)
    except SchemaMismatch as error:
        raise SchemaUnsupported(str(error).rstrip(".")) from error
