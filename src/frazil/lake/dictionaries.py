"""Texts that come again and again, as places in a dictionary: how segments and data files have them.

Between the two they stay so: to make texts of them, to order these and to look them up again would be most of the
work.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as types


def keeping(target: pa.DataType, source: pa.DataType) -> pa.DataType:
    """The type of a table's column, with dictionaries of text where the source has them."""
    if types.is_dictionary(source):
        return source if types.is_string(target) and source.value_type.equals(target) else target
    if types.is_struct(source) and types.is_struct(target):
        found = {field.name: field.type for field in source.fields}
        return pa.struct([_keeping_field(field, found.get(field.name, field.type)) for field in target.fields])
    if types.is_list(source) and types.is_list(target):
        return pa.list_(_keeping_field(target.value_field, source.value_type))
    if types.is_map(source) and types.is_map(target):
        return pa.map_(
            _keeping_field(target.key_field, source.key_type), _keeping_field(target.item_field, source.item_type)
        )
    return target


def _keeping_field(target: pa.Field, source: pa.DataType) -> pa.Field:
    return target.with_type(keeping(target.type, source))


def joined(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Rows of a table with this schema as one; columns that not all batches have as dictionaries are plain."""
    kinds = [{batch.schema.field(place).type for batch in batches} for place in range(len(schema))]
    common = pa.schema(
        [
            field.with_type(found.pop()) if len(found) == 1 else field
            for field, found in zip(schema, kinds, strict=True)
        ]
    )
    if any(not batch.schema.equals(common) for batch in batches):
        batches = [batch.cast(common) for batch in batches]
    return pa.Table.from_batches(batches, common)


def whole(rows: pa.Table) -> pa.Table:
    """The rows with each column in one piece. Its pieces are given up as it is made, if nobody else has them."""
    schema, columns = rows.schema, rows.columns
    del rows
    for place in range(len(columns)):
        columns[place] = columns[place].combine_chunks()
    return pa.Table.from_arrays(columns, schema=schema)
