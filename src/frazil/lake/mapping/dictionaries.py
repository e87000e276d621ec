"""Keeps dictionary-encoded texts encoded on their way from segments to data files.

To decode them, sort the texts and encode them again would be most of the work. Dictionaries are kept in columns of
texts and in lists and maps of texts, but not in structs, which may be null with all their fields.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from frazil.log.schema.nulls import are_null
from frazil.log.schema.schema import has_dictionary

_OFFSET_BYTES = 4


def keep_dictionaries(target: pa.DataType, source: pa.DataType) -> pa.DataType:
    """Returns the type of a table's column, with dictionaries for the texts that have them in the source."""
    if types.is_dictionary(source):
        return source if types.is_string(target) and source.value_type.equals(target) else target
    if types.is_list(source) and types.is_list(target):
        return pa.list_(_keep_in_field(target.value_field, source.value_type))
    if types.is_map(source) and types.is_map(target):
        return pa.map_(
            _keep_in_field(target.key_field, source.key_type), _keep_in_field(target.item_field, source.item_type)
        )
    return target


def _keep_in_field(target: pa.Field, source: pa.DataType) -> pa.Field:
    return target.with_type(keep_dictionaries(target.type, source))


def decoded_bytes(batch: pa.RecordBatch) -> int:
    """Returns how many bytes the rows would have without dictionaries."""
    return sum(map(_decoded_bytes, batch.columns))


def _decoded_bytes(array: pa.Array) -> int:
    if not types.is_dictionary(array.type):
        return int(array.nbytes) + sum(
            _decoded_bytes(part) - int(part.nbytes) for part in _children_with_dictionaries(array)
        )
    sizes = pc.binary_length(array.dictionary).to_numpy()
    places = array.indices.drop_null().to_numpy()
    return _OFFSET_BYTES * len(array) + int(sizes.take(places).sum(dtype=np.int64))


def _children_with_dictionaries(array: pa.Array) -> list[pa.Array]:
    """Returns the values of a list or map that have dictionaries."""
    if not has_dictionary(array.type):
        return []
    start, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
    parts = [array.keys, array.items] if isinstance(array, pa.MapArray) else [array.values]
    return [part.slice(start, end - start) for part in parts if has_dictionary(part.type)]


def combine_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Combines the chunks of each column. The memory of the chunks is freed on the way, if nobody else uses it.

    Columns of only nulls share their memory. A dictionary column with null indices is decoded, because of how Arrow
    computes statistics: it counts null as one of the texts that are used, so it may believe that all texts of the
    dictionary are used when one is not, and then it writes bounds that no row has.
    """
    fields, columns, count = list(rows.schema), rows.columns, len(rows)
    del rows
    of_nulls: dict[pa.DataType, pa.Array] = {}
    for place, plain in enumerate(schema):
        if are_null(columns[place]):
            fields[place] = plain
            if plain.type not in of_nulls:
                of_nulls[plain.type] = pa.nulls(count, plain.type)
            columns[place] = of_nulls[plain.type]
            continue
        column = columns[place].combine_chunks()
        if _has_nulls(column):
            fields[place], column = plain, column.cast(plain.type)
        columns[place] = column
    return pa.Table.from_arrays(columns, schema=pa.schema(fields))


def _has_nulls(array: pa.Array) -> bool:
    if types.is_dictionary(array.type):
        return bool(array.null_count)
    return any(map(_has_nulls, _children_with_dictionaries(array)))
