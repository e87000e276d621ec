"""How large batches are, and those that are too large for one append in pieces that are not."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

_ROUGHLY = 1024 * 1024
"""Up to here the size of the buffers is good enough for the size of a batch; exact numbers take longer to get."""


def size_of(batch: pa.RecordBatch) -> int:
    """In bytes. Of a small slice it may be what the whole has."""
    roughly: int = batch.get_total_buffer_size()
    return roughly if roughly <= _ROUGHLY else int(batch.nbytes)


def split_batch(batch: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """The batch in pieces of at most so many bytes; a single larger record is a piece of its own."""
    if batch.num_rows == 1 or batch.nbytes <= most_bytes:
        yield batch
        return
    half = batch.num_rows // 2
    yield from split_batch(batch.slice(0, half), most_bytes)
    yield from split_batch(batch.slice(half), most_bytes)
