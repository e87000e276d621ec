"""Puts values at their positions in a longer array, with nulls between them."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.types as types

from frazil.formats.avro.reader import Ints


def scatter(array: pa.Array, places: Ints, count: int) -> pa.Array:
    """Returns an array of `count` values that has the given ones at `places`, and nulls elsewhere. The given array
    must not be a slice."""
    if len(array) == count:
        return array
    if not len(array):
        return pa.nulls(count, array.type)
    if not array.null_count and not array.offset:
        if types.is_binary(array.type) or types.is_string(array.type):
            return _scatter_texts(array, places, count)
        if not types.is_nested(array.type) and not types.is_boolean(array.type):
            return _scatter_numbers(array, places, count)
    index, absent = np.zeros(count, np.int64), np.ones(count, np.bool_)
    index[places], absent[places] = np.arange(len(places)), False
    return array.take(pa.array(index, mask=absent))


def _scatter_texts(array: pa.Array, places: Ints, count: int) -> pa.Array:
    """Moves only the offsets: the bytes stay where they are, and nulls have none."""
    _, offsets, content = array.buffers()
    borders = np.frombuffer(offsets, np.int32)[: len(array) + 1]
    spaced = np.zeros(count + 1, np.int32)
    spaced[places + 1] = np.diff(borders)
    np.cumsum(spaced, out=spaced)
    spaced += borders[0]
    return pa.Array.from_buffers(array.type, count, [_present(places, count), pa.py_buffer(spaced), content])


def _scatter_numbers(array: pa.Array, places: Ints, count: int) -> pa.Array:
    """Scatters values of any fixed width."""
    width = array.type.bit_width // 8
    kind = f"<i{width}" if width in (4, 8) else f"V{width}"
    spaced = np.zeros(count, kind)
    spaced[places] = np.frombuffer(array.buffers()[1], kind)[: len(array)]
    return pa.Array.from_buffers(array.type, count, [_present(places, count), pa.py_buffer(spaced)])


def _present(places: Ints, count: int) -> pa.Buffer:
    present = np.zeros(count, np.bool_)
    present[places] = True
    return pa.py_buffer(np.packbits(present, bitorder="little"))
