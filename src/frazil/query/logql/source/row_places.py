"""Compares rows by their place in the order of time: by nanoseconds, then partition and offset."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.query.logql.source.rows_block import nanoseconds

_UNKNOWN = -1
"""Partition or offset that is null comes first, as in the order of a scan."""


class Place(NamedTuple):
    time_ns: int
    partition: int
    offset: int


def place_of(batch: pa.RecordBatch, row: int) -> Place:
    one = batch.slice(row, 1)
    return Place(*(int(column[0]) for column in _keys(one)))


def behind(batch: pa.RecordBatch, last: Place, *, newest_first: bool) -> pa.RecordBatch:
    """Returns the rows that come after this place."""
    found = np.zeros(len(batch), np.bool_)
    same = np.ones(len(batch), np.bool_)
    for column, key in zip(_keys(batch), last, strict=True):
        found |= same & ((column < key) if newest_first else (column > key))
        same &= column == key
    return batch if found.all() else batch.filter(pa.array(found))


def _keys(batch: pa.RecordBatch) -> tuple[NDArray[np.int64], ...]:
    places = (pc.fill_null(batch.column(name).cast(pa.int64()), _UNKNOWN) for name in (PARTITION, OFFSET))
    return (nanoseconds(batch, "timestamp"), *(np.asarray(column) for column in places))
