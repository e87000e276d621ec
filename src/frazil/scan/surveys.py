"""Which columns the rows of a topic have whose records are bytes: only the records themselves tell.

Segments never change, so what was found in one is kept for the whole process.
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
from frazil.scan.cut import Span
from frazil.scan.extents import Extent, Sealed, tail_reader
from frazil.scan.log_place import LogPlace

BATCH_ROWS = 65_536
KEPT = 20_000
"""Segments whose columns are remembered."""
REGISTRY_SECONDS = 60.0
"""How long: a registry may learn of a schema that it did not know."""

_FIXED: frozenset[Format] = frozenset({"raw", "string"})
_REGISTERED: frozenset[Format] = frozenset({"avro", "protobuf", "json_schema"})


class _Found(NamedTuple):
    columns: pa.Schema
    until: float


_found: OrderedDict[tuple[object, ...], _Found] = OrderedDict()
_lock = threading.Lock()


class Surveys:
    """Looks at records of one topic."""

    def __init__(self, place: LogPlace, decoder: Decoder, formats: FormatConfig) -> None:
        self._place = place
        self._decoder = decoder
        self._whose = pickle.dumps((place, decoder))
        used = {formats.key, formats.value}
        self._fixed = used <= _FIXED
        self._lasts = REGISTRY_SECONDS if used & _REGISTERED else float("inf")

    def sealed(self, partition: int, extent: Extent, span: Span, known: pa.Schema | None) -> Iterator[pa.Schema]:
        """Of all records in the segments that have some of these offsets."""
        if self._fixed or not span.rows:
            return
        for each in extent.between(*span):
            # The epoch tells apart two lives of a topic, in which offsets are the same.
            epoch = extent.epochs.at(each.first) if extent.epochs else ""
            what = (self._whose, partition, each, epoch, known)
            yield self._once(what, self._read(partition, each), known)

    def in_memory(self, partition: int, entries: Iterable[Entry], known: pa.Schema | None) -> Iterator[pa.Schema]:
        """Of records that are not sealed."""
        if self._fixed:
            return
        for entry in entries:
            what = (self._whose, partition, entry.offset, entry.chain, known)
            yield self._once(what, (each.batch() for each in (entry,)), known)

    def in_wal(self, partition: int, span: Span, known: pa.Schema | None) -> Iterator[pa.Schema]:
        """Of records that are not sealed, and that another process on this machine may have written."""
        reader = tail_reader(self._place.open(), self._place.topic, partition, self._place.data_dir)
        if reader is not None and not self._fixed:
            yield self._survey((records.batch for records in reader.read(*span)), known)

    def _once(
        self, what: tuple[object, ...], batches: Iterator[pa.RecordBatch], known: pa.Schema | None
    ) -> pa.Schema:
        """Nothing is read that was surveyed before."""
        found = _recall(what)
        if found is None:
            found = self._survey(batches, known)
            _remember(what, _Found(found, time.monotonic() + self._lasts))
        return found

    def _survey(self, batches: Iterable[pa.RecordBatch], known: pa.Schema | None) -> pa.Schema:
        found = list(dict.fromkeys(self._decoder.survey(batch, known) for batch in batches))
        return widest(found) if found else self._decoder.columns()

    def _read(self, partition: int, sealed: Sealed) -> Iterator[pa.RecordBatch]:
        store = self._place.open()
        segment = read_footer(store, layout.segment_key(self._place.topic, partition, sealed.first))
        yield from read_records(store, segment).to_batches(max_chunksize=BATCH_ROWS)


def first_columns(
    place: LogPlace, decoder: Decoder, formats: FormatConfig, extents: Mapping[int, Extent], rows: int
) -> pa.Schema:
    """What a new table begins with: the columns that are known, and those of the first records, about so many."""
    surveys = Surveys(place, decoder, formats)
    found = [decoder.columns()]
    share = max(1, rows // max(1, len(extents)))
    for partition, extent in extents.items():
        first = Span(extent.start, min(extent.start + share, extent.sealed_end))
        found += surveys.sealed(partition, extent, first, None)
    return widest(list(dict.fromkeys(found)))


def _recall(what: tuple[object, ...]) -> pa.Schema | None:
    with _lock:
        found = _found.get(what)
        if found is None or found.until < time.monotonic():
            return None
        _found.move_to_end(what)
        return found.columns


def _remember(what: tuple[object, ...], found: _Found) -> None:
    with _lock:
        _found[what] = found
        while len(_found) > KEPT:
            _found.popitem(last=False)
