"""Cuts the records of a topic that its table does not have into units."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from frazil.scan.interface import UNIT_ROWS
from frazil.scan.log_extents import LogExtent, SealedSegment
from frazil.scan.log_rows.decoding import Block, LogDecoder
from frazil.scan.log_rows.tail_blocks import TailBlocks
from frazil.scan.offset_ranges import OffsetRange
from frazil.scan.selection.bounded_cache import BoundedCache
from frazil.scan.selection.row_reader import RowReader, RowSource, rows_without_columns
from frazil.scan.selection.tally import Tally
from frazil.scan.selection.time_column import LEAST, MOST

_BOUNDS_BYTES = 200


@dataclass(frozen=True)
class LogReading:
    """Is what all units of a log in one scan share."""

    decoder: LogDecoder
    reader: RowReader
    tail: TailBlocks
    segments: BoundedCache
    """Keeps decoded segments."""
    bounds: BoundedCache
    """Keeps the bounds of the times in blocks of segments, which outlive the blocks."""
    tally: Tally
    key: tuple[object, ...]
    """Tells apart the rows that several tenants see."""

    def units(self, partition: int, extent: LogExtent, wanted: OffsetRange) -> Iterator[LogUnit]:
        """Yields the units of a range of offsets, which the log has without a gap."""
        blocks, sealed = self.tail.read(self.decoder, partition, extent, wanted)
        for each in sealed:
            for segment in extent.segments_between(*each):
                yield from self._of_segment(partition, extent, segment, each)
        for tail in blocks:
            start, end = max(wanted.start, tail.first), min(wanted.end, tail.end)
            key = ("tail", partition, tail.epoch, start, end, tail.chain)
            rows = tail.block.between(start, end)
            yield LogUnit(self, key, len(rows), tail.block.bounds_ns, lambda rows=rows: rows)  # type: ignore[misc]

    def _of_segment(
        self, partition: int, extent: LogExtent, segment: SealedSegment, wanted: OffsetRange
    ) -> Iterator[LogUnit]:
        epoch = extent.epochs.at(segment.first) if extent.epochs is not None else ""
        own = ("segment", self.decoder.topic, self.decoder.serial, partition, epoch, segment.first, segment.end)
        known: list[tuple[int, int]] | None = self.bounds.find(own)
        for number, first in enumerate(range(segment.first, segment.end, UNIT_ROWS)):
            start, end = max(wanted.start, first), min(wanted.end, segment.end, first + UNIT_ROWS)
            if start >= end:
                continue
            bounds = (LEAST, MOST) if known is None else known[number]

            def fetch(number: int = number, start: int = start, end: int = end) -> pa.RecordBatch:
                return self._decoded(own, partition, segment)[number].between(start, end)

            yield LogUnit(self, (*own, start, end), end - start, bounds, fetch)

    def _decoded(self, own: tuple[object, ...], partition: int, segment: SealedSegment) -> list[Block]:
        found: list[Block] | None = self.segments.find(own)
        self.tally.looked_up(hit=found is not None)
        if found is None:
            found = self.decoder.segment(partition, segment)
            self.segments.keep(own, found, sum(block.nbytes for block in found))
            self.bounds.keep(own, [block.bounds_ns for block in found], _BOUNDS_BYTES * len(found))
            self.tally.bytes(segment.bytes)
        return found


@dataclass(frozen=True)
class LogUnit:
    """Is a range of records of one partition, as rows."""

    reading: LogReading
    name: tuple[object, ...]
    rows: int
    bounds_ns: tuple[int, int]
    fetch: Callable[[], pa.RecordBatch]

    @property
    def key(self) -> tuple[object, ...]:
        return ("log", self.reading.decoder.topic, self.reading.decoder.serial, *self.reading.key, *self.name)

    def read(self, columns: Sequence[str] | None = None, *, filtered: bool = True) -> pa.RecordBatch:
        found = self.reading.reader.read(self._fetched(), columns, filtered=filtered)
        self.reading.tally.read(self.rows, found.num_rows)
        self.reading.tally.log(found.num_rows)
        return found

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield self.read()

    def source(self) -> RowSource:
        """Returns the unit with its rows decoded, of which there may be fewer than records."""
        self.reading.tally.read(self.rows, 0)
        self.reading.tally.log(self.rows)
        return self._fetched()

    def _fetched(self) -> FetchedRows:
        return FetchedRows(self.reading.reader, self.fetch(), self.bounds_ns)


@dataclass(frozen=True)
class FetchedRows:
    """Has rows with all columns in memory."""

    reader: RowReader
    batch: pa.RecordBatch
    bounds_ns: tuple[int, int]

    @property
    def rows(self) -> int:
        return int(self.batch.num_rows)

    def load(self, columns: Sequence[str]) -> pa.RecordBatch:
        if not columns:
            return rows_without_columns(self.rows)
        schema = self.reader.selected(columns)
        found = [self.batch.column(name) for name in columns]
        arrays = [
            column if column.type == field.type else column.cast(field.type)
            for column, field in zip(found, schema, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def alive(self) -> pa.BooleanArray | None:
        return None
