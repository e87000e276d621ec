"""As much of a batch as a reader asked for, and no more of it in memory."""

from __future__ import annotations

import pyarrow as pa

LITTLE = 64 * 1024
"""Not worth a copy."""


def head(batch: pa.RecordBatch, max_rows: int, max_bytes: int) -> pa.RecordBatch:
    """Its first rows, at least one, that are no more than this."""
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
    """A copy if it is a small part of what stays in memory because of it; else the batch itself."""
    kept = batch.get_total_buffer_size()
    if kept <= LITTLE or batch.nbytes * 2 >= kept:
        return batch
    # Five times as quick as `take`; of a single batch nothing would be copied.
    return pa.concat_batches([batch, batch.slice(0, 0)])
