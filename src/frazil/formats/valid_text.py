"""Checks that Arrow strings are UTF-8. Arrow does not check it by itself, and readers of Parquet crash on invalid
text."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_SHORT = 32
"""If strings are shorter than this on average, it is faster to check all of them as one string."""


def valid_text(array: pa.Array) -> pa.Array:
    """Returns the array itself; raises `pa.ArrowInvalid` if one of its strings is not UTF-8."""
    whole = _joined(array)
    if whole is None or not pc.string_is_ascii(whole)[0].as_py():
        array.validate(full=True)
    return array


def _joined(array: pa.Array) -> pa.Array | None:
    """Returns all strings as one, without a copy; None if they are long. If the whole is ASCII, so is each string."""
    if not len(array):
        return None
    _, offsets, data = array.buffers()
    places = memoryview(offsets).cast("i")
    start, end = places[array.offset], places[array.offset + len(array)]
    if data is None or not 0 < end - start < len(array) * _SHORT:
        return None
    return pa.Array.from_buffers(pa.string(), 1, [None, pa.array([start, end], pa.int32()).buffers()[1], data])
