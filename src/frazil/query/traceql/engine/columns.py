"""Turns columns of spans into arrays."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as types

from frazil.log.schema.columns import NANOSECONDS
from frazil.query.traceql.engine.values import Bools, Ints

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


def whole_column(table: pa.Table, name: str) -> pa.Array:
    """Returns a column as one array."""
    column = table[name]
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks() if column.num_chunks else pa.nulls(0, column.type)


def nanoseconds(table: pa.Table, name: str) -> Ints:
    """Returns times as nanoseconds since 1970, and 0 for null. A table has their last digits in a second column."""
    column = whole_column(table, name)
    numbers = integers(column.cast(pa.int64()) if types.is_timestamp(column.type) else column, 0)
    if types.is_timestamp(column.type):
        numbers = numbers * _NANOSECONDS[column.type.unit]
    if name + NANOSECONDS in table.column_names:
        numbers = numbers + integers(whole_column(table, name + NANOSECONDS), 0)
    return numbers


def integers(column: pa.Array, otherwise: int) -> Ints:
    """Returns integers, with a number for null."""
    filled = column.fill_null(otherwise) if column.null_count else column
    found: Ints = filled.to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def id_bytes(column: pa.Array, width: int) -> npt.NDArray[np.uint8]:
    """Returns ids as rows of bytes, and zeros for null."""
    column = column.cast(pa.binary(width))
    data = column.buffers()[1]
    if data is None or not len(column):
        return np.zeros((len(column), width), np.uint8)
    found = np.frombuffer(data, np.uint8)[column.offset * width : (column.offset + len(column)) * width]
    found = found.reshape(-1, width)
    if column.null_count:
        found = found.copy()
        found[~valid(column)] = 0
    return found


def id_numbers(column: pa.Array) -> npt.NDArray[np.uint64]:
    """Returns ids of eight bytes as numbers, and 0 for null."""
    return np.ascontiguousarray(id_bytes(column, 8)).view(np.uint64).reshape(-1)


def valid(column: pa.Array) -> Bools:
    found: Bools = column.is_valid().to_numpy(zero_copy_only=False)
    return found


def hex_texts(ids: npt.NDArray[np.uint8]) -> pa.Array:
    """Writes ids, which are rows of bytes, as lower-case hexadecimal digits."""
    count, width = ids.shape
    digits = np.empty((count, width * 2), np.uint8)
    digits[:, 0::2] = _HEX[ids >> 4]
    digits[:, 1::2] = _HEX[ids & 15]
    offsets = np.arange(count + 1, dtype=np.int32) * (width * 2)
    return pa.Array.from_buffers(pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(digits.reshape(-1))])
