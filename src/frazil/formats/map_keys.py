"""Finds maps that have the same key twice. Parquet stores them, but readers disagree on what they mean.

Most rows of a topic have one of a few sets of keys. So the keys of each row are first compared as a whole, and only
one row of each set is searched.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types


def repeats_a_key(offsets: pa.Array, keys: pa.Array) -> bool:
    """Returns whether one of the maps that begin at `offsets` has a key twice. Nested keys are not compared.

    If the keys are dictionary-encoded, no value of the dictionary may come twice.
    """
    if isinstance(keys, pa.ExtensionArray):
        keys = keys.storage
    if len(keys) < 2 or types.is_nested(keys.type):
        return False
    if types.is_dictionary(keys.type):
        keys = keys.indices
        if _are_alike(offsets, keys):
            first = keys.slice(0, offsets[1].as_py())
            return len(first.unique()) < len(first)
    maps = pa.ListArray.from_arrays(offsets, keys)
    if types.is_string(keys.type):
        maps = maps.filter(_first_of_each_set(offsets, keys))
        keys = maps.flatten()
    codes = keys if types.is_integer(keys.type) else keys.dictionary_encode().indices
    rows = pc.list_parent_indices(maps)
    pairs = pa.table({"row": rows, "key": codes})
    same_row = pc.equal(rows[1:], rows[:-1])
    if not pc.any(pc.and_(same_row, pc.less_equal(codes[1:], codes[:-1]))).as_py():
        # In each row the keys come in the order in which they were first seen, so none comes twice.
        return False
    return len(pairs.group_by(["row", "key"]).aggregate([])) < len(pairs)


def _are_alike(offsets: pa.Array, codes: pa.Array) -> bool:
    """Returns whether all rows have the same keys in the same order."""
    ends = offsets.to_numpy()
    rows, width = len(ends) - 1, int(ends[1])
    if codes.null_count or ends[0] or not width or len(codes) != rows * width or (np.diff(ends) != width).any():
        return False
    places = codes.to_numpy().reshape(rows, width)
    return bool((places == places[0]).all())


def _first_of_each_set(offsets: pa.Array, keys: pa.Array) -> pa.Array:
    """Marks the first of all rows that have the same keys in the same order.

    The keys of a row lie one after the other in memory, and so do their lengths. Viewed as bytes, without a copy, two
    values per row identify its keys.
    """
    count = len(offsets) - 1
    places = pa.Array.from_buffers(pa.int32(), len(keys) + 1, [None, keys.buffers()[1]], offset=keys.offset)
    lengths = pc.binary_length(keys)
    texts = _bytes(places.take(offsets), keys.buffers()[2], count)
    sizes = _bytes(pc.multiply(offsets, pa.scalar(4, pa.int32())), lengths.buffers()[1], count)
    text, size = texts.dictionary_encode(), sizes.dictionary_encode()
    both = pc.add(pc.multiply(text.indices.cast(pa.int64()), len(size.dictionary)), size.indices.cast(pa.int64()))
    codes = both.dictionary_encode().indices
    seen = pc.cumulative_max(codes)
    return pa.concat_arrays([pa.array([True]), pc.greater(codes[1:], seen[:-1])])


def _bytes(offsets: pa.Array, data: pa.Buffer | None, count: int) -> pa.Array:
    return pa.Array.from_buffers(pa.binary(), count, [None, offsets.buffers()[1], data or pa.py_buffer(b"")])
