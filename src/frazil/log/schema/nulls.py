"""Makes columns of nulls, which share their memory: most tables of telemetry have many of them."""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa

FEWEST, MOST = 2048, 65_536
"""Columns with a number of rows between these share their memory with all others of their type. It takes less time
to make a smaller one than to look it up."""


def nulls(count: int, kind: pa.DataType) -> pa.Array:
    return _shared(kind).slice(0, count) if FEWEST <= count <= MOST else pa.nulls(count, kind)


def are_null(column: pa.Array | pa.ChunkedArray) -> bool:
    """Tell whether all values are null."""
    return bool(column.null_count == len(column))


@lru_cache(maxsize=256)
def _shared(kind: pa.DataType) -> pa.Array:
    return pa.nulls(MOST, kind)
