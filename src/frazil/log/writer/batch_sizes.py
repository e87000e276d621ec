"""Measures batches, and splits those that are too large for one append."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

_ROUGHLY = 1024 * 1024
"""Up to this size the size of the buffers is taken for the size of a batch: the exact one takes longer to compute."""


def size_of(batch: pa.RecordBatch) -> int:
    """Return the size in bytes. For a small slice it may be the size of the whole."""
    roughly: int = batch.get_total_buffer_size()
    return roughly if roughly <= _ROUGHLY else int(batch.nbytes)


def split_batch(batch: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """Split a batch into batches of at most so many bytes. A single larger record is a batch of its own."""
    if batch.num_rows == 1 or batch.nbytes <= most_bytes:
        yield batch
        return
    half = batch.num_rows // 2
    yield from split_batch(batch.slice(0, half), most_bytes)
    yield from split_batch(batch.slice(half), most_bytes)
