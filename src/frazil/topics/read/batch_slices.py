"""Cuts batches to the size that a reader asked for, and frees the memory of the rest."""

from __future__ import annotations

import pyarrow as pa

LITTLE = 64 * 1024
"""Less memory than this is not worth a copy."""


def head(batch: pa.RecordBatch, max_rows: int, max_bytes: int) -> pa.RecordBatch:
    """Returns the first rows within these limits, at least one."""
    batch = batch.slice(0, max(1, max_rows))
    if len(batch) <= 1 or batch.nbytes <= max_bytes:
        return batch
    fits, over = 1, len(batch)
    while over - fits > 1:
        middle = (fits + over) // 2
        if batch.slice(0, middle).nbytes <= max_bytes:
            fits = middle
        else:
            over = middle
    return batch.slice(0, fits)


def copy_if_sparse(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Copies the batch if it is a small part of the memory that it keeps alive. Otherwise it returns the batch
    itself."""
    kept = batch.get_total_buffer_size()
    if kept <= LITTLE or batch.nbytes * 2 >= kept:
        return batch
    # This is five times faster than `take`. With a single batch nothing would be copied.
    return pa.concat_batches([batch, batch.slice(0, 0)])
