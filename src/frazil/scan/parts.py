"""Parts of a read, each to be read on its own by whoever gets it: another thread, process or machine.

A part says exactly which rows it has when it is made. Commits, compaction and trimming that come afterwards change
nothing of it, as long as the files it names exist: that is what the grace times of trimming and expiry are for.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table

from frazil.errors import OffsetOutOfRange, SegmentMissing, SegmentsGone
from frazil.lake.schema.arrow import arrow_schema
from frazil.log import layout
from frazil.log.segments.segment import read_footer, read_records
from frazil.log.wal.entries import Entry
from frazil.scan.cut import Span
from frazil.scan.decode import RowMaker, Rules
from frazil.scan.extents import Sealed, tail_reader
from frazil.scan.log_place import LogPlace
from frazil.scan.predicate import arrow_filter, columns_of
from frazil.scan.table_files import FileReader
from frazil.store import ObjectStore

BATCH_ROWS = 65_536
SEAL_SECONDS = 60.0
"""How long a part waits until records are sealed that are in a WAL on another machine."""
_LOOK_SECONDS = 0.2


@dataclass(frozen=True)
class Shape:
    """What rows look like, wherever they come from."""

    rules: Rules
    """About all columns: a record of the log is a row only if all of it fits."""
    columns: tuple[str, ...]
    """Those that are wanted, in this order."""
    where: BooleanExpression | None = None
    """Which rows are; all without it."""

    @property
    def schema(self) -> Schema:
        return self.rules.schema

    @property
    def arrow(self) -> pa.Schema:
        return arrow_schema(self._of(self.columns)).remove_metadata()

    @property
    def read(self) -> Schema:
        """The columns that have to be read: those that are wanted, and those that decide."""
        return self._of(tuple(dict.fromkeys((*self.columns, *columns_of(self.where)))))

    def _of(self, names: tuple[str, ...]) -> Schema:
        return Schema(*(self.schema.find_field(name) for name in names))


class _Choice:
    """The wanted columns of the wanted rows."""

    def __init__(self, shape: Shape) -> None:
        self._columns = shape.columns
        self._target = shape.arrow
        self._where = arrow_filter(shape.where, shape.schema)

    def __call__(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        if self._where is not None:
            rows = rows.filter(self._where)
        columns = [rows.column(name) for name in self._columns]
        return pa.RecordBatch.from_arrays(columns, schema=self._target)


class Part(Protocol):
    def read(self) -> Iterator[pa.RecordBatch]:
        """The rows, in the schema `Shape.arrow`."""


@dataclass(frozen=True)
class TablePart:
    """Some files of a table, of those that one snapshot has."""

    reader: FileReader
    shape: Shape
    files: tuple[FileScanTask, ...]

    @classmethod
    def of(
        cls, table: Table, shape: Shape, files: tuple[FileScanTask, ...], spans: dict[int, Span] | None
    ) -> TablePart:
        return cls(FileReader.of(table, spans, shape.where), shape, files)

    def read(self) -> Iterator[pa.RecordBatch]:
        choose, read = _Choice(self.shape), self.shape.read
        as_read = arrow_schema(read).remove_metadata()
        for batch in self.reader.read(self.files, read):
            for at in range(0, len(batch), BATCH_ROWS):
                yield choose(batch.slice(at, BATCH_ROWS).cast(as_read))


@dataclass(frozen=True)
class SegmentsPart:
    """Neighbouring segments, or what is wanted of them."""

    place: LogPlace
    shape: Shape
    partition: int
    span: Span
    segments: tuple[Sealed, ...]

    def read(self) -> Iterator[pa.RecordBatch]:
        store = self.place.open()
        to_rows = _Rows(self.shape, self.partition)
        for sealed in self.segments:
            yield from _segment(store, self.place.topic, self.partition, sealed, self.span, to_rows)


@dataclass(frozen=True)
class MemoryPart:
    """Records that no other process can see: they are in the part itself."""

    shape: Shape
    partition: int
    records: tuple[tuple[int, pa.RecordBatch], ...]
    """Runs of them, each with the offset of its first one."""

    @classmethod
    def of(cls, shape: Shape, partition: int, span: Span, entries: Iterable[Entry]) -> MemoryPart:
        found = []
        for entry in entries:
            start, end = max(span.start, entry.offset), min(span.end, entry.end)
            if start < end:
                found.append((start, entry.batch().slice(start - entry.offset, end - start)))
        return cls(shape, partition, tuple(found))

    def read(self) -> Iterator[pa.RecordBatch]:
        to_rows = _Rows(self.shape, self.partition)
        for offset, batch in self.records:
            for at in range(0, len(batch), BATCH_ROWS):
                yield to_rows(batch.slice(at, BATCH_ROWS), offset + at)


@dataclass(frozen=True)
class TailPart:
    """Records that were not sealed when the part was made."""

    place: LogPlace
    shape: Shape
    partition: int
    span: Span

    def read(self) -> Iterator[pa.RecordBatch]:
        store = self.place.open()
        to_rows = _Rows(self.shape, self.partition)
        reader = tail_reader(store, self.place.topic, self.partition, self.place.data_dir)
        left = self.span
        if reader is not None and reader.bounds().end >= left.end:
            try:
                for records in reader.read(*left):
                    yield to_rows(records.batch, records.offset)
                    left = Span(records.end, left.end)
            except SegmentsGone:
                # Sealed, moved and marked for trimming meanwhile; the segments stay for the grace time.
                pass
        if not left.rows:
            return
        for sealed in self._sealed(store, left):
            yield from _segment(store, self.place.topic, self.partition, sealed, left, to_rows)

    def _sealed(self, store: ObjectStore, left: Span) -> list[Sealed]:
        """Segments that have the records, also such as are marked for trimming; waits until they are there."""
        deadline = time.monotonic() + SEAL_SECONDS
        while True:
            found = list(_listed(store, self.place.topic, self.partition, left))
            at = left.start
            for each in found:
                if each.first > at:
                    break
                at = each.end
            if at >= left.end:
                return found
            if time.monotonic() >= deadline:
                raise OffsetOutOfRange(
                    f"{self.place.topic}/{self.partition}: records {at} to {left.end} are in a WAL on another "
                    f"machine and were not sealed for {SEAL_SECONDS:.0f} seconds. Read up to what is sealed only, or "
                    f"read on the writer's machine."
                )
            time.sleep(_LOOK_SECONDS)


class _Rows:
    """Records of one partition become rows. Those that do not fit the table are left out: it leaves them out too."""

    def __init__(self, shape: Shape, partition: int) -> None:
        self._partition = partition
        self._maker = RowMaker(shape.rules)
        self._choose = _Choice(shape)

    def __call__(self, batch: pa.RecordBatch, offset: int) -> pa.RecordBatch:
        return self._choose(self._maker.make(batch, self._partition, offset).batch)


def _segment(
    store: ObjectStore, topic: str, partition: int, sealed: Sealed, span: Span, to_rows: _Rows
) -> Iterator[pa.RecordBatch]:
    segment = read_footer(store, layout.segment_key(topic, partition, sealed.first))
    if segment.end != sealed.end:
        raise SegmentMissing(
            f"{topic}/{partition}: the segment at {sealed.first} ends at {segment.end}, but the next one starts at "
            f"{sealed.end}."
        )
    start, end = max(span.start, segment.first), min(span.end, segment.end)
    rows = read_records(store, segment).slice(start - segment.first, end - start)
    for batch in rows.to_batches(max_chunksize=BATCH_ROWS):
        yield to_rows(batch, start)
        start += len(batch)


def _listed(store: ObjectStore, topic: str, partition: int, span: Span) -> Iterator[Sealed]:
    prefix = layout.partition_prefix(topic, partition)
    firsts = sorted(first for info in store.list(prefix) if (first := layout.parse_segment(info.key)) is not None)
    below = [first for first in firsts if first <= span.start][-1:]
    for first in below + [each for each in firsts if span.start < each < span.end]:
        segment = read_footer(store, layout.segment_key(topic, partition, first))
        if segment.end > span.start:
            yield Sealed(segment.first, segment.end, 0)
