"""Maps the names of fields to names of columns and back.

A column has the name of its field, unless that name is reserved: for what Kafka adds (`_kafka_…`), for what Frazil
adds, or for Iceberg's own metadata. All reserved names begin with an underscore, and a field with such a name gets
one more. So does a field that has more underscores already, which keeps different names different: `_offset` becomes
`__offset`, and `__offset` becomes `___offset`. Names within a struct stay as they are.

Names that differ in case only are left alone: a record that has both becomes a dead letter.
"""

from __future__ import annotations

import pyarrow as pa

from frazil.formats.kafka import PREFIX
from frazil.log.schema.columns import OFFSET, PARTITION, RESERVED

VALUE = "value"
"""The column that holds values which are not records."""

_TAKEN = {OFFSET, PARTITION, *RESERVED}


def column_of(field: str) -> str:
    """Returns the name of the column for a field."""
    return f"_{field}" if _is_taken(field) else field


def field_of(column: str) -> str | None:
    """Returns the field that a column is for; None if the column does not come from the value."""
    if not _is_taken(column):
        return column
    return column[1:] if column.startswith("__") else None


def fields_of(rows: pa.Schema) -> pa.Schema:
    """Returns the columns that come from the value, under the names of their fields."""
    named = ((field_of(column.name), column) for column in rows)
    return pa.schema([column.with_name(name) for name, column in named if name is not None])


def _is_taken(name: str) -> bool:
    plain = f"_{name.lstrip('_').lower()}"
    return name.startswith("_") and (plain in _TAKEN or plain.startswith(PREFIX))
