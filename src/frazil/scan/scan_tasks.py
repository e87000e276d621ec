"""Defines the tasks of a scan. Another thread, process or machine can read each of them on its own.

A task fixes its rows when it is made. Later commits, compaction and trimming do not change them as long as the files
exist, which the grace times of trimming and expiry ensure.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table

from frazil.errors import OffsetOutOfRange, SegmentMissing, SegmentsGone
from frazil.lake.schema.arrow import arrow_schema
from frazil.log import layout
from frazil.log.segments.segment import read_footer, read_records
from frazil.log.wal.entries import Entry
from frazil.scan.decode import DecodingRules, RowDecoder
from frazil.scan.log_extents import SealedSegment, tail_reader
from frazil.scan.log_location import LogLocation
from frazil.scan.offset_ranges import OffsetRange
from frazil.scan.predicates.arrow import mask
from frazil.scan.predicates.iceberg import to_iceberg
from frazil.scan.predicates.terms import columns_of
from frazil.scan.predicates.tree import Predicate
from frazil.scan.table_files import FileReader
from frazil.store import ObjectStore

BATCH_ROWS = 65_536
SEAL_SECONDS = 60.0
"""A task waits this long for records to be sealed that are in a WAL on another machine."""
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Projection:
    """Says which columns and rows are wanted, wherever they come from."""

    rules: DecodingRules
    """The rules cover all columns, because a record is a row only if all of it fits."""
    columns: tuple[str, ...]
    """These columns are wanted, in this order."""
    where: Predicate | None = None
    """Only rows that match are wanted; all are if it is None."""

    @property
    def schema(self) -> Schema:
        return self.rules.schema

    @property
    def arrow(self) -> pa.Schema:
        return arrow_schema(self._of(self.columns)).remove_metadata()

    @property
    def read(self) -> Schema:
        """Returns the columns that must be read: the wanted ones, and those that `where` uses."""
        used = columns_of(self.where, [field.name for field in self.schema.fields])
        return self._of(tuple(dict.fromkeys((*self.columns, *used))))

    def _of(self, names: tuple[str, ...]) -> Schema:
        return Schema(*(self.schema.find_field(name) for name in names))


class _Projector:
    """Applies a projection to rows."""

    def __init__(self, projection: Projection) -> None:
        self._columns = projection.columns
        self._target = projection.arrow
        self._where = projection.where

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if self._where is not None:
            rows = rows.filter(mask(self._where, rows))
        columns = [rows.column(name) for name in self._columns]
        return pa.RecordBatch.from_arrays(columns, schema=self._target)


class ScanTask(Protocol):
    def read(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows in the schema `Projection.arrow`."""


@dataclass(frozen=True)
class TableScanTask:
    """Reads some files of one snapshot of a table."""

    reader: FileReader
    projection: Projection
    files: tuple[FileScanTask, ...]

    @classmethod
    def of(
        cls,
        table: Table,
        projection: Projection,
        files: tuple[FileScanTask, ...],
        ranges: dict[int, OffsetRange] | None,
    ) -> TableScanTask:
        return cls(FileReader.of(table, ranges, to_iceberg(projection.where, table.schema())), projection, files)

    def read(self) -> Iterator[pa.RecordBatch]:
        choose, read = _Projector(self.projection), self.projection.read
        as_read = arrow_schema(read).remove_metadata()
        for batch in self.reader.read(self.files, read):
            for at in range(0, len(batch), BATCH_ROWS):
                yield choose(batch.slice(at, BATCH_ROWS).cast(as_read))


@dataclass(frozen=True)
class SegmentScanTask:
    """Reads neighbouring segments, or a range of them."""

    location: LogLocation
    projection: Projection
    partition: int
    offset_range: OffsetRange
    segments: tuple[SealedSegment, ...]

    def read(self) -> Iterator[pa.RecordBatch]:
        store = self.location.open()
        to_rows = _RecordsToRows(self.projection, self.partition)
        for sealed in self.segments:
            yield from _segment_rows(store, self.location.topic, self.partition, sealed, self.offset_range, to_rows)


@dataclass(frozen=True)
class MemoryScanTask:
    """Carries records that no other process can see."""

    projection: Projection
    partition: int
    records: tuple[tuple[int, pa.RecordBatch], ...]
    """These are batches of records, each with the offset of its first record."""

    @classmethod
    def of(
        cls, projection: Projection, partition: int, offset_range: OffsetRange, entries: Iterable[Entry]
    ) -> MemoryScanTask:
        found = []
        for entry in entries:
            start, end = max(offset_range.start, entry.offset), min(offset_range.end, entry.end)
            if start < end:
                found.append((start, entry.batch().slice(start - entry.offset, end - start)))
        return cls(projection, partition, tuple(found))

    def read(self) -> Iterator[pa.RecordBatch]:
        to_rows = _RecordsToRows(self.projection, self.partition)
        for offset, batch in self.records:
            for at in range(0, len(batch), BATCH_ROWS):
                yield to_rows(batch.slice(at, BATCH_ROWS), offset + at)


@dataclass(frozen=True)
class TailScanTask:
    """Reads records that were not sealed when the task was made."""

    location: LogLocation
    projection: Projection
    partition: int
    offset_range: OffsetRange

    def read(self) -> Iterator[pa.RecordBatch]:
        store = self.location.open()
        to_rows = _RecordsToRows(self.projection, self.partition)
        reader = tail_reader(store, self.location.topic, self.partition, self.location.data_dir)
        left = self.offset_range
        if reader is not None and reader.bounds().end >= left.end:
            try:
                for records in reader.read(*left):
                    yield to_rows(records.batch, records.offset)
                    left = OffsetRange(records.end, left.end)
            except SegmentsGone:
                # The records were sealed, moved and marked for trimming meanwhile. Their segments stay for the grace
                # time.
                pass
        if not left.rows:
            return
        for sealed in self._sealed(store, left):
            yield from _segment_rows(store, self.location.topic, self.partition, sealed, left, to_rows)

    def _sealed(self, store: ObjectStore, left: OffsetRange) -> list[SealedSegment]:
        """Waits for the segments that have the records, and returns them. They may be marked for trimming."""
        deadline = time.monotonic() + SEAL_SECONDS
        while True:
            found = list(_listed(store, self.location.topic, self.partition, left))
            at = left.start
            for each in found:
                if each.first > at:
                    break
                at = each.end
            if at >= left.end:
                return found
            if time.monotonic() >= deadline:
                raise OffsetOutOfRange(
                    f"{self.location.topic}/{self.partition}: records {at} to {left.end} are in a WAL on another "
                    f"machine and were not sealed for {SEAL_SECONDS:.0f} seconds. Read up to what is sealed only, or "
                    f"read on the writer's machine."
                )
            time.sleep(_POLL_SECONDS)


class _RecordsToRows:
    """Turns records of one partition into rows. It drops misfits, as the table does."""

    def __init__(self, projection: Projection, partition: int) -> None:
        self._partition = partition
        self._maker = RowDecoder(projection.rules)
        self._choose = _Projector(projection)

    def __call__(self, batch: pa.RecordBatch, offset: int) -> pa.RecordBatch:
        return self._choose(self._maker.decode(batch, self._partition, offset).batch)


def _segment_rows(
    store: ObjectStore,
    topic: str,
    partition: int,
    sealed: SealedSegment,
    offset_range: OffsetRange,
    to_rows: _RecordsToRows,
) -> Iterator[pa.RecordBatch]:
    segment = read_footer(store, layout.segment_key(topic, partition, sealed.first))
    if segment.end != sealed.end:
        raise SegmentMissing(
            f"{topic}/{partition}: the segment at {sealed.first} ends at {segment.end}, but the next one starts at "
            f"{sealed.end}."
        )
    start, end = max(offset_range.start, segment.first), min(offset_range.end, segment.end)
    rows = read_records(store, segment).slice(start - segment.first, end - start)
    for batch in rows.to_batches(max_chunksize=BATCH_ROWS):
        yield to_rows(batch, start)
        start += len(batch)


def _listed(store: ObjectStore, topic: str, partition: int, offset_range: OffsetRange) -> Iterator[SealedSegment]:
    prefix = layout.partition_prefix(topic, partition)
    firsts = sorted(first for info in store.list(prefix) if (first := layout.parse_segment(info.key)) is not None)
    below = [first for first in firsts if first <= offset_range.start][-1:]
    for first in below + [each for each in firsts if offset_range.start < each < offset_range.end]:
        segment = read_footer(store, layout.segment_key(topic, partition, first))
        if segment.end > offset_range.start:
            yield SealedSegment(segment.first, segment.end, 0)
