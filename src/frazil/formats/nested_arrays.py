"""Lists and maps with other items than they had."""

from __future__ import annotations

import pyarrow as pa


def with_items(array: pa.Array, kind: pa.DataType, items: pa.Array) -> pa.Array:
    """A list (or map) array of type `kind`, the items (or entries) of which are others, at the same places."""
    return pa.Array.from_buffers(
        kind, len(array), array.buffers()[:2], array.null_count, offset=array.offset, children=[items]
    )
