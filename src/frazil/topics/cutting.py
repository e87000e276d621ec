"""As much of a batch as a reader asked for."""

from __future__ import annotations

import pyarrow as pa


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
