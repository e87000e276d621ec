"""Texts that repeat, made places in a dictionary: what is done with them then costs less than the texts would."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

SAMPLE = 4096
"""Texts of a column that are looked at first."""
REPEATS = 4
"""How often each text must be there, on the average, for a dictionary to pay."""


def with_repeated_texts(rows: pa.Table) -> pa.Table:
    """The rows with dictionaries for columns of texts, and for maps and lists of texts, that repeat.

    Texts among which there are nulls stay as they are: so does whoever writes them want them.
    """
    for place, field in enumerate(rows.schema):
        chunks = rows.column(place).chunks
        kind = _encoded_type(chunks, field.type, _repeat)
        if not kind.equals(field.type):
            encoded = pa.chunked_array([_encode(chunk, kind) for chunk in chunks], kind)
            rows = rows.set_column(place, field.with_type(kind), encoded)
    return rows


def with_dictionary(array: pa.Array) -> pa.Array:
    """The texts of one array, also those in maps and lists, as places in dictionaries; not where nulls are among
    them."""
    return _encode(array, _encoded_type([array], array.type, _are_whole))


def if_repeated(texts: pa.Array) -> pa.Array:
    """The texts as places in a dictionary if they repeat."""
    return texts.dictionary_encode() if _repeat([texts]) else texts


def joined(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """Rows with this schema as one; columns that not all batches have as dictionaries are plain."""
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
    """The type with dictionaries in place of those texts that are worth it."""
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
    """Whether no text is null."""
    return not any(chunk.null_count for chunk in chunks)


def _repeat(chunks: list[pa.Array]) -> bool:
    """Whether texts repeat, as far as some of the first show."""
    if not chunks or not len(chunks[0]) or not _are_whole(chunks):
        return False
    texts = chunks[0]
    # Evenly over all: the same text may come many times in a row.
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
    """Of a list or map: offsets that count from the first value of this very array, not of what it is a slice of;
    where that value is; and how many there are."""
    offsets = array.offsets
    start = offsets[0].as_py()
    if start or offsets.offset:
        offsets = pc.subtract(offsets, pa.scalar(start, offsets.type))
    return offsets, start, offsets[-1].as_py()
