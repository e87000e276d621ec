"""Replaces the items of list and map arrays."""

from __future__ import annotations

import pyarrow as pa


def with_items(array: pa.Array, kind: pa.DataType, items: pa.Array) -> pa.Array:
    """Returns a list (or map) array of type `kind` with the same offsets and nulls, but with other items (or
    entries)."""
    return pa.Array.from_buffers(
        kind, len(array), array.buffers()[:2], array.null_count, offset=array.offset, children=[items]
    )
