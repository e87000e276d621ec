"""Defines blocks: batches of raw records of one partition, in which records can be found by offset."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.formats import kafka

OVERHEAD = 4096
"""A block takes about this much beside its records, for Arrow's objects for each column."""
JOINED_BYTES = 1 << 20
"""Blocks are joined up to this size."""
SMALL_BYTES = JOINED_BYTES // 8
"""A block below this size is joined with its neighbours."""


class Block(NamedTuple):
    """Has neighbouring records. Their offsets in the source (Kafka's, or else the log's) ascend from `ascending_from`
    on."""

    offset: int
    end: int
    batch: pa.RecordBatch
    nbytes: int
    since_ms: int
    time_ms: int
    """These are the times at which the first and the last record were appended or sealed."""
    ascending_from: int
    """The source's offsets ascend from this log offset on, which normally is the first of the block."""
    first: int
    """This is the source's offset of the record at `ascending_from`."""
    last: int
    """This is the source's offset of the last record."""
    borrowed: bool
    """The records are in a WAL file if this is true. They are copied once they are sealed, so that the file can
    go."""

    def find(self, source_offset: int) -> int:
        """Returns the log offset of the first record at or after this offset of the source."""
        if not kafka.is_kafka(self.batch.schema):
            return min(max(source_offset, self.offset), self.end)
        skipped = self.ascending_from - self.offset
        ascending = _source_offsets(self.batch).data[skipped:]
        return self.ascending_from + bisect_left(ascending, source_offset)


def make(offset: int, batch: pa.RecordBatch, time_ms: int, *, nbytes: int | None = None, borrowed: bool) -> Block:
    size = OVERHEAD + (batch.get_total_buffer_size() if nbytes is None else nbytes)
    end = offset + batch.num_rows
    if not kafka.is_kafka(batch.schema):
        return Block(offset, end, batch, size, time_ms, time_ms, offset, offset, end - 1, borrowed)
    offsets = _source_offsets(batch)
    breaks = np.flatnonzero(np.diff(offsets) <= 0)
    at = int(breaks[-1]) + 1 if len(breaks) else 0
    first, last = int(offsets[at]), int(offsets[-1])
    return Block(offset, end, batch, size, time_ms, time_ms, offset + at, first, last, borrowed)


def _source_offsets(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    column = batch.column(kafka.OFFSET)
    offsets: npt.NDArray[np.int64] = (column.fill_null(-1) if column.null_count else column).to_numpy()
    return offsets


def cut(block: Block, end: int) -> Block:
    """Returns the records below `end`, in the same memory."""
    return make(block.offset, block.batch.slice(0, end - block.offset), block.time_ms, borrowed=block.borrowed)


def packed(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Copies the records into memory of their own, which is no larger than they need."""
    return pa.ipc.read_record_batch(batch.serialize(), batch.schema)


def join(blocks: Sequence[Block]) -> Block:
    """Joins neighbours of one schema into one block with memory of its own."""
    batches = [block.batch for block in blocks]
    batch = packed(batches[0]) if len(batches) == 1 else pa.concat_batches(batches)
    joined = make(blocks[0].offset, batch, blocks[-1].time_ms, borrowed=False)
    return joined._replace(since_ms=blocks[0].since_ms)


def joinable(blocks: Sequence[Block], sealed: int, most_ms: int) -> slice | None:
    """Finds neighbours to join: several small ones of about the same time, or one that is sealed and still in the
    WAL."""
    start = size = 0
    for at, block in enumerate(blocks):
        ours = not block.borrowed or block.end <= sealed
        loose = ours and (block.borrowed or block.nbytes < SMALL_BYTES)
        if (
            loose
            and start < at
            and size + block.nbytes <= JOINED_BYTES
            and block.time_ms - blocks[start].since_ms <= most_ms
            and block.batch.schema.equals(blocks[start].batch.schema)
        ):
            size += block.nbytes
            continue
        if _worth_it(blocks, start, at):
            return slice(start, at)
        start, size = (at, block.nbytes) if loose else (at + 1, 0)
    return slice(start, len(blocks)) if _worth_it(blocks, start, len(blocks)) else None


def _worth_it(blocks: Sequence[Block], start: int, end: int) -> bool:
    return end - start > 1 or (end - start == 1 and blocks[start].borrowed)
