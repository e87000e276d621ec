"""Turns single fields of decoded messages into columns: times, ids, counts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.telemetry.lists import lengths, offsets_of

TIME = pa.timestamp("ns", "UTC")
TRACE_ID, SPAN_ID = pa.binary(16), pa.binary(8)
_LATEST = np.uint64(2**63 - 1)


class Ids(NamedTuple):
    column: pa.Array
    """The ids; null where there is none, or an invalid one."""
    invalid: int


def times(nanoseconds: pa.Array, otherwise: int | None) -> pa.Array:
    """Turns nanoseconds since 1970 into times. Where the number is 0 or out of range, the time is `otherwise`."""
    numbers = nanoseconds.to_numpy(zero_copy_only=False)
    absent = (numbers == 0) | (numbers > _LATEST)
    if not absent.any():
        return nanoseconds.view(TIME)
    filled = np.where(absent, np.uint64(otherwise or 0), numbers).astype(np.int64)
    return pa.array(filled, mask=absent if otherwise is None else None).view(TIME)


def ids(column: pa.Array, kind: pa.DataType) -> Ids:
    """Turns bytes into ids. A valid id has the right length and is not all zeros; an empty one is absent."""
    size = kind.byte_width
    sizes = lengths(column)
    sized = sizes == size
    if sized.all():
        data, unsized = _data(column), 0
    else:
        wrong = ~sized & (sizes > 0)
        column = pc.if_else(pa.array(wrong), pa.scalar(b"", column.type), column) if wrong.any() else column
        padded = np.zeros((len(column), size), np.uint8)
        padded[sized] = np.frombuffer(_data(column), np.uint8).reshape(-1, size)
        data, unsized = pa.py_buffer(padded), int(wrong.sum())
    present = np.frombuffer(data, np.uint64).reshape(-1, size // 8).any(axis=1)
    if present.all():
        return Ids(pa.Array.from_buffers(kind, len(column), [None, data]), unsized)
    validity = pa.py_buffer(np.packbits(present, bitorder="little"))
    return Ids(pa.Array.from_buffers(kind, len(column), [validity, data]), unsized + int((sized & ~present).sum()))


def counts(column: pa.Array) -> pa.Array:
    """Turns unsigned numbers, of 32 bits or of 64 bits in range, into signed ones."""
    if column.null_count:
        return column.cast(pa.int64())
    return pa.array(column.to_numpy().astype(np.int64))


def _data(column: pa.Array) -> pa.Buffer:
    """Returns the bytes of all values, one after the other."""
    data = column.buffers()[2]
    if data is None or not len(column):
        return pa.py_buffer(b"")
    places = offsets_of(column)
    return data.slice(places[0], places[-1] - places[0])


def is_zero(column: pa.Array) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = column.to_numpy() == 0
    return found
