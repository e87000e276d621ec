"""Finds buffered records by key, by offset, in a range of offsets, or the newest ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

import pyarrow as pa

from frazil.formats import kafka
from frazil.hot.blocks import Block
from frazil.hot.key_index import candidates
from frazil.hot.keys import as_bytes, hash_key
from frazil.hot.partition_contents import PartitionContents
from frazil.hot.recency import Recency, recency_of
from frazil.log.schema.row_sizes import first_within, last_within


class BufferedRecord(NamedTuple):
    """Is one buffered record."""

    partition: int
    offset: int
    """This is the offset in the log."""
    block: Block

    @property
    def row(self) -> int:
        return self.offset - self.block.offset

    def recency(self) -> Recency:
        return recency_of(self.block.batch, self.row, self.partition, self.offset)


class RecordSlice(NamedTuple):
    """Has some records of one partition with one schema."""

    partition: int
    offsets: pa.Array
    """These are the offsets in the log."""
    records: pa.RecordBatch


def find_by_key(partition: int, contents: PartitionContents, key: bytes, column: str) -> Iterator[BufferedRecord]:
    """Yields the records of one partition that have this key, the newest first."""
    for offset in candidates(contents.runs, hash_key(key)):
        block = contents.block_at(offset)
        if block is None:
            return
        value = block.batch.column(column).slice(offset - block.offset, 1)
        if as_bytes(value)[0].as_py() == key:
            yield BufferedRecord(partition, offset, block)


def find_by_offset(partition: int, contents: PartitionContents, source_offset: int) -> BufferedRecord | None:
    """Returns the record at this offset of the source, or None."""
    offset = contents.find(source_offset)
    block = contents.block_at(offset)
    if block is None or source_offset_of(block, offset) != source_offset:
        return None
    return BufferedRecord(partition, offset, block)


def source_offset_of(block: Block, offset: int) -> int:
    if not kafka.is_kafka(block.batch.schema):
        return offset
    found: int = block.batch.column(kafka.OFFSET)[offset - block.offset].as_py()
    return found


def slices_at(found_records: Sequence[BufferedRecord]) -> list[RecordSlice]:
    """Returns slices with these records. Records of one partition and schema are in one slice."""
    ordered = sorted(found_records, key=lambda record: (record.partition, record.offset))
    found = []
    for (partition, schema), group in groupby(ordered, lambda record: (record.partition, record.block.batch.schema)):
        taken = list(group)
        batches = [record.block.batch.slice(record.row, 1) for record in taken]
        records = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
        assert records.schema.equals(schema)
        found.append(RecordSlice(partition, pa.array([record.offset for record in taken], pa.int64()), records))
    return found


def slices_between(partition: int, contents: PartitionContents, start: int, end: int) -> list[RecordSlice]:
    """Returns slices with the records from one log offset to another."""
    return [
        RecordSlice(
            partition, pa.arange(block.offset + first, block.offset + last), block.batch.slice(first, last - first)
        )
        for block, first, last in contents.between(start, end)
    ]


def end_within(contents: PartitionContents, start: int, end: int, nbytes: int) -> int:
    """Returns the offset up to which the records from `start` on have about `nbytes` bytes. It takes at least one
    record."""
    at = start
    for block, first, last in contents.between(start, end):
        batch = block.batch.slice(first, last - first)
        count = first_within(batch, nbytes)
        at += count
        nbytes -= batch.slice(0, count).nbytes
        if count < len(batch):
            break
    return max(at, start + 1)


def newest_slices(contents: Mapping[int, PartitionContents], limit: int, nbytes: int) -> Iterator[RecordSlice]:
    """Yields the newest records of all partitions by the time of their append, the newest first.

    A slice has at most `limit` records and about `nbytes` bytes.
    """
    blocks = [(partition, block) for partition, each in contents.items() for block in each.blocks]
    for partition, block in sorted(blocks, key=lambda each: (each[1].time_ms, each[0], each[1].end), reverse=True):
        end = block.end
        while end > block.offset:
            most = min(limit, end - block.offset)
            records = block.batch.slice(end - block.offset - most, most)
            start = end - max(1, last_within(records, nbytes))
            yield RecordSlice(partition, pa.arange(start, end), records.slice(start - end + most))
            end = start
