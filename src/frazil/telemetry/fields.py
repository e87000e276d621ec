"""Single fields of decoded messages as columns: times, ids, counts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

TIME = pa.timestamp("ns", "UTC")
TRACE_ID, SPAN_ID = pa.binary(16), pa.binary(8)
_LATEST = np.uint64(2**63 - 1)


class Ids(NamedTuple):
    column: pa.Array
    """Null where there is none, or none that is valid."""
    invalid: int


def times(nanoseconds: pa.Array, otherwise: int | None) -> pa.Array:
    """Nanoseconds since 1970, where 0 stands for no time and what no clock shows counts as 0: `otherwise` then."""
    numbers = nanoseconds.to_numpy(zero_copy_only=False)
    absent = (numbers == 0) | (numbers > _LATEST)
    if not absent.any():
        return nanoseconds.cast(pa.int64()).view(TIME)
    filled = np.where(absent, np.uint64(otherwise or 0), numbers).astype(np.int64)
    return pa.array(filled, mask=absent if otherwise is None else None).view(TIME)


def ids(column: pa.Array, kind: pa.DataType) -> Ids:
    """Ids have their length, and are not all zeros; an empty one is none."""
    size = kind.byte_width
    lengths = pc.binary_length(column).to_numpy()
    sized = lengths == size
    wrong = ~sized & (lengths > 0)
    if wrong.any():
        column = pc.if_else(pa.array(wrong), pa.scalar(b"", column.type), column)
    words = np.zeros((len(column), size // 8), np.uint64)
    words[sized] = np.frombuffer(_data(column), np.uint64).reshape(-1, size // 8)
    present = words.any(axis=1)
    wrong |= sized & ~present
    validity = None if present.all() else pa.py_buffer(np.packbits(present, bitorder="little"))
    return Ids(pa.Array.from_buffers(kind, len(column), [validity, pa.py_buffer(words)]), int(wrong.sum()))


def counts(column: pa.Array) -> pa.Array:
    """Numbers of 32 bits without a sign."""
    return column.cast(pa.int64())


def _data(column: pa.Array) -> pa.Buffer:
    """The bytes of all values, one after the other."""
    _, offsets, data = column.buffers()
    if data is None or not len(column):
        return pa.py_buffer(b"")
    places = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1]
    return data.slice(places[0], places[-1] - places[0])


def is_zero(column: pa.Array) -> pa.Array:
    return pc.equal(column, pa.scalar(0, column.type))
