"""Dictionary-encodes columns of texts that repeat: everything that is done with them later costs less."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

SAMPLE = 4096
"""So many texts of a column are looked at to decide."""
REPEATS = 4
"""Each text must occur this often, on the average, for a dictionary to pay."""


def with_repeated_texts(rows: pa.Table) -> pa.Table:
    """Dictionary-encode the texts that repeat, also those in maps and lists.

    Columns with nulls stay as they are, because those who write them expect it.
    """
    for place, field in enumerate(rows.schema):
        chunks = rows.column(place).chunks
        kind = _encoded_type(chunks, field.type, _repeat)
        if not kind.equals(field.type):
            encoded = pa.chunked_array([_encode(chunk, kind) for chunk in chunks], kind)
            rows = rows.set_column(place, field.with_type(kind), encoded)
    return rows


def with_dictionary(array: pa.Array) -> pa.Array:
    """Dictionary-encode the texts of an array, also those in maps and lists, unless there are nulls among them."""
    return _encode(array, _encoded_type([array], array.type, _are_whole))


def if_repeated(texts: pa.Array) -> pa.Array:
    """Dictionary-encode texts if they repeat."""
    return texts.dictionary_encode() if _repeat([texts]) else texts


def joined(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Join batches of this schema into one table. Only columns that are dictionary-encoded in all stay so."""
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


def _encoded_type(chunks: list[pa.Array], kind: pa.DataType, worth: Callable[[list[pa.Array]], bool]) -> pa.DataType:
    """Return the type with dictionaries in place of those texts for which they pay."""
    if types.is_string(kind):
        return pa.dictionary(pa.int32(), pa.string()) if worth(chunks) else kind
    if types.is_map(kind):
        keys = _encoded_type([chunk.keys for chunk in chunks], kind.key_type, worth)
        items = _encoded_type([chunk.items for chunk in chunks], kind.item_type, worth)
        return pa.map_(kind.key_field.with_type(keys), kind.item_field.with_type(items))
    if types.is_list(kind):
        values = _encoded_type([chunk.values for chunk in chunks], kind.value_type, worth)
        return pa.list_(kind.value_field.with_type(values))
    return kind


def _are_whole(chunks: list[pa.Array]) -> bool:
    """Tell whether no text is null."""
    return not any(chunk.null_count for chunk in chunks)


def _repeat(chunks: list[pa.Array]) -> bool:
    """Tell whether texts repeat, as far as a sample of the first chunk shows."""
    if not chunks or not len(chunks[0]) or not _are_whole(chunks):
        return False
    texts = chunks[0]
    # The sample is spread evenly, because the same text may come many times in a row.
    sample = texts.take(pa.array(np.arange(0, len(texts), max(1, len(texts) // SAMPLE))))
    return bool(len(sample) >= REPEATS * pc.count_distinct(sample).as_py())


def _encode(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type.equals(kind):
        return array
    if types.is_dictionary(kind):
        return array.dictionary_encode()
    offsets, start, length = extent(array)
    mask = array.is_null() if array.null_count else None
    if types.is_map(kind):
        keys = _encode(array.keys.slice(start, length), kind.key_type)
        items = _encode(array.items.slice(start, length), kind.item_type)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=mask)
    values = _encode(array.values.slice(start, length), kind.value_type)
    return pa.ListArray.from_arrays(offsets, values, type=kind, mask=mask)


def extent(array: pa.Array) -> tuple[pa.Array, int, int]:
    """Return the offsets of a list or map array from its own first value on, where that is, and the number of values.

    The array's own offsets count from the first value of the array of which it is a slice.
    """
    offsets = array.offsets
    start = offsets[0].as_py()
    if start or offsets.offset:
        offsets = pc.subtract(offsets, pa.scalar(start, offsets.type))
    return offsets, start, offsets[-1].as_py()
