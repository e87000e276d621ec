"""Batches that are too large for one append, in pieces that are not."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa


def pieces(batch: pa.RecordBatch, most_bytes: int) -> Iterator[pa.RecordBatch]:
    """The batch in pieces of at most so many bytes; a single larger record is a piece of its own."""
    if batch.num_rows == 1 or batch.nbytes <= most_bytes:
        yield batch
        return
    half = batch.num_rows // 2
    yield from pieces(batch.slice(0, half), most_bytes)
    yield from pieces(batch.slice(half), most_bytes)
