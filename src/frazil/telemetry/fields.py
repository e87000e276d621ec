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
    lengths = pc.binary_length(column)
    wrong = pc.or_(pc.not_equal(lengths, size), pc.equal(column, bytes(size)))
    if wrong.true_count == len(column):
        valid = pa.nulls(len(column), kind)
    else:
        valid = pc.if_else(wrong, pa.scalar(None, column.type), column).cast(kind)
    return Ids(valid, pc.and_(wrong, pc.greater(lengths, 0)).true_count)


def counts(column: pa.Array) -> pa.Array:
    """Numbers of 32 bits without a sign."""
    return column.cast(pa.int64())


def is_zero(column: pa.Array) -> pa.Array:
    return pc.equal(column, pa.scalar(0, column.type))
