"""Decodes records of the log into rows of the table, in blocks of at most so many rows as a unit has."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from frazil.errors import SegmentMissing
from frazil.lake.schema.arrow import arrow_schema
from frazil.log import layout
from frazil.log.raw.rows import batches_of
from frazil.log.schema.columns import OFFSET
from frazil.log.schema.repeated_texts import joined
from frazil.log.schema.schema import conform, with_dictionaries
from frazil.log.segments.segment import read_footer, read_parts
from frazil.log.wal.entries import Entry
from frazil.scan.decode import DecodingRules, RowDecoder
from frazil.scan.interface import UNIT_ROWS
from frazil.scan.log_extents import SealedSegment
from frazil.scan.selection.time_column import LEAST, MOST, TimeColumn
from frazil.store import ObjectStore


@dataclass(frozen=True)
class Block:
    """Has the rows of consecutive records, with all columns of the table, in the order of their offsets.

    Texts that repeat may be dictionaries, which take less memory.
    """

    rows: pa.RecordBatch
    bounds_ns: tuple[int, int]

    @classmethod
    def of(cls, rows: pa.RecordBatch, time: TimeColumn | None) -> Block:
        known = time is not None and len(rows) > 0
        return cls(rows, time.bounds_ns(rows) if known and time is not None else (LEAST, MOST))

    @property
    def nbytes(self) -> int:
        return int(self.rows.nbytes)

    def between(self, start: int, end: int) -> pa.RecordBatch:
        """Returns the rows of records with these offsets."""
        if not len(self.rows):
            return self.rows
        offsets = self.rows.column(OFFSET).to_numpy()
        first, last = np.searchsorted(offsets, [start, end]).tolist()
        return self.rows if last - first == len(offsets) else self.rows.slice(first, last - first)


@dataclass(frozen=True)
class LogDecoder:
    """Decodes records of one topic by the same rules as the pipeline. Any thread may use it."""

    topic: str
    store: ObjectStore
    rules: DecodingRules
    records: pa.Schema
    """The newest schema of the records."""
    time: TimeColumn | None
    serial: int
    """Other rules have another number."""

    @cached_property
    def rows(self) -> pa.Schema:
        """Returns the schema of rows, without dictionaries."""
        return arrow_schema(self.rules.schema)

    def entries(self, partition: int, entries: Sequence[Entry]) -> list[Block]:
        """Decodes consecutive entries of a tail."""
        return (
            list(self._blocks(partition, entries[0].offset, batches_of(entries, dictionaries=True)))
            if entries
            else []
        )

    def segment(self, partition: int, sealed: SealedSegment) -> list[Block]:
        """Decodes a segment. Each block but the last has as many records as a unit may have."""
        segment = read_footer(self.store, layout.segment_key(self.topic, partition, sealed.first))
        if segment.end != sealed.end:
            raise SegmentMissing(
                f"{self.topic}/{partition}: the segment at {sealed.first} ends at {segment.end}, but the next one "
                f"starts at {sealed.end}."
            )
        batches = (
            batch for part in read_parts(self.store, segment, dictionaries=True) for batch in part.to_batches()
        )
        return list(self._blocks(partition, segment.first, batches))

    def _blocks(self, partition: int, offset: int, batches: Iterable[pa.RecordBatch]) -> Iterator[Block]:
        decoder = RowDecoder(self.rules)
        conforming = (conform(batch, with_dictionaries(self.records, batch.schema)) for batch in batches)
        for batch in _in_units(conforming, self.records):
            yield Block.of(decoder.decode(batch, partition, offset).batch, self.time)
            offset += len(batch)


def _in_units(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Joins and cuts batches, so that each but the last has the size of a unit."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        position = 0
        while position < len(batch):
            part = batch.slice(position, UNIT_ROWS - rows)
            waiting.append(part)
            position += len(part)
            rows += len(part)
            if rows == UNIT_ROWS:
                yield join_rows(waiting, schema)
                waiting, rows = [], 0
    if waiting:
        yield join_rows(waiting, schema)


def join_rows(batches: Sequence[pa.RecordBatch], schema: pa.Schema) -> pa.RecordBatch:
    """Joins rows of which each batch may have texts in dictionaries of its own. Some batch must have rows."""
    if len(batches) == 1:
        return batches[0]
    return joined(batches, schema).combine_chunks().to_batches()[0]
