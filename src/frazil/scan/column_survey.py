"""Finds out which columns the rows of a topic have when its records are bytes: only the records themselves tell.

Segments never change, so the columns of a segment are cached for the whole process.
"""

from __future__ import annotations

import pickle
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa

from frazil.config.sections.kafka import Format, FormatConfig
from frazil.formats.decoding import Decoder
from frazil.lake.schema.widening import widest
from frazil.log import layout
from frazil.log.segments.segment import read_footer, read_records
from frazil.log.wal.entries import Entry
from frazil.scan.log_extents import LogExtent, SealedSegment, tail_reader
from frazil.scan.log_location import LogLocation
from frazil.scan.offset_ranges import OffsetRange

BATCH_ROWS = 65_536
REMEMBERED_SEGMENTS = 20_000
"""The cache remembers the columns of this many segments."""
REGISTRY_SECONDS = 60.0
"""Columns from a schema registry are cached this long, because the registry may learn of a missing schema."""

_FIXED: frozenset[Format] = frozenset({"raw", "string"})
_REGISTERED: frozenset[Format] = frozenset({"avro", "protobuf", "json_schema"})


class _SurveyedColumns(NamedTuple):
    columns: pa.Schema
    until: float


_cache: OrderedDict[tuple[object, ...], _SurveyedColumns] = OrderedDict()
_lock = threading.Lock()


class ColumnSurvey:
    """Collects the columns of one topic's records."""

    def __init__(self, location: LogLocation, decoder: Decoder, formats: FormatConfig) -> None:
        self._location = location
        self._decoder = decoder
        self._cache_key = pickle.dumps((location, decoder))
        used = {formats.key, formats.value}
        self._fixed = used <= _FIXED
        self._lasts = REGISTRY_SECONDS if used & _REGISTERED else float("inf")

    def of_segments(
        self, partition: int, extent: LogExtent, offset_range: OffsetRange, known: pa.Schema | None
    ) -> Iterator[pa.Schema]:
        """Yields the columns of all segments that have some of these offsets."""
        if self._fixed or not offset_range.rows:
            return
        for each in extent.segments_between(*offset_range):
            # The epoch tells apart two logs of a topic that use the same offsets.
            epoch = extent.epochs.at(each.first) if extent.epochs else ""
            key = (self._cache_key, partition, each, epoch, known)
            yield self._once(key, self._read(partition, each), known)

    def of_entries(self, partition: int, entries: Iterable[Entry], known: pa.Schema | None) -> Iterator[pa.Schema]:
        """Yields the columns of unsealed records in memory."""
        if self._fixed:
            return
        for entry in entries:
            key = (self._cache_key, partition, entry.offset, entry.chain, known)
            yield self._once(key, (each.batch() for each in (entry,)), known)

    def of_wal(self, partition: int, offset_range: OffsetRange, known: pa.Schema | None) -> Iterator[pa.Schema]:
        """Yields the columns of unsealed records that another process on this machine may have written."""
        reader = tail_reader(self._location.open(), self._location.topic, partition, self._location.data_dir)
        if reader is not None and not self._fixed:
            yield self._survey((records.batch for records in reader.read(*offset_range)), known)

    def _once(self, key: tuple[object, ...], batches: Iterator[pa.RecordBatch], known: pa.Schema | None) -> pa.Schema:
        """Surveys the batches unless the result is in the cache."""
        found = _recall(key)
        if found is None:
            found = self._survey(batches, known)
            _remember(key, _SurveyedColumns(found, time.monotonic() + self._lasts))
        return found

    def _survey(self, batches: Iterable[pa.RecordBatch], known: pa.Schema | None) -> pa.Schema:
        found = list(dict.fromkeys(self._decoder.survey(batch, known) for batch in batches))
        return widest(found) if found else self._decoder.columns()

    def _read(self, partition: int, sealed: SealedSegment) -> Iterator[pa.RecordBatch]:
        store = self._location.open()
        segment = read_footer(store, layout.segment_key(self._location.topic, partition, sealed.first))
        yield from read_records(store, segment).to_batches(max_chunksize=BATCH_ROWS)


def initial_columns(
    location: LogLocation, decoder: Decoder, formats: FormatConfig, extents: Mapping[int, LogExtent], rows: int
) -> pa.Schema:
    """Returns the columns of a new table: the known ones, and those of about the first `rows` records."""
    survey = ColumnSurvey(location, decoder, formats)
    found = [decoder.columns()]
    share = max(1, rows // max(1, len(extents)))
    for partition, extent in extents.items():
        first = OffsetRange(extent.start, min(extent.start + share, extent.sealed_end))
        found += survey.of_segments(partition, extent, first, None)
    return widest(list(dict.fromkeys(found)))


def _recall(key: tuple[object, ...]) -> pa.Schema | None:
    with _lock:
        found = _cache.get(key)
        if found is None or found.until < time.monotonic():
            return None
        _cache.move_to_end(key)
        return found.columns


def _remember(key: tuple[object, ...], found: _SurveyedColumns) -> None:
    with _lock:
        _cache[key] = found
        while len(_cache) > REMEMBERED_SEGMENTS:
            _cache.popitem(last=False)
