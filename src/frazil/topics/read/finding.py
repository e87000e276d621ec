"""Which message was the first to be published at a time or later.

Producers say when they published, so times need not grow with offsets: what is looked for is the smallest offset with
such a time. Data files, their row groups and segments whose statistics say that all in them is older are not read; of
the others, only the times are.
"""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.expressions.parser import parse

from frazil.errors import SegmentMissing, SegmentsGone, StorageError, TableDamaged
from frazil.lake.catalog.calls import calling
from frazil.lake.checksums.verifying_io import VerifyingFileIO
from frazil.lake.commit.offsets import name_of
from frazil.log.segments.index import SegmentIndex
from frazil.log.segments.segment import open_records
from frazil.scan.cut import Span
from frazil.scan.table_files import plan_files
from frazil.topics.read.table_files import DataFile, Fields
from frazil.topics.read.topic_place import Cold, TopicPlace

TIME = "publish_time"
TRIES = 5


def first_since(place: TopicPlace, partition: int, time_ms: int) -> int:
    """The offset of that message; the end of the partition when there is none."""
    for _ in range(TRIES):
        try:
            return _first_since(place, partition, time_ms)
        except (SegmentsGone, SegmentMissing, StorageError) as error:
            if error.retryable or isinstance(error, TableDamaged):
                raise
            # Files were trimmed or compacted meanwhile; what was in them is elsewhere now.
            problem = error
    raise problem


def _first_since(place: TopicPlace, partition: int, time_ms: int) -> int:
    reader = place.reader(partition)
    bounds = reader.bounds()
    cold = place.cold(partition) if bounds.start > 0 else None
    if cold is not None:
        span = Span(cold.complete, min(cold.committed, bounds.start))
        found = _in_table(cold, partition, span, time_ms) if span.rows else None
        if found is not None:
            return found
    found = _in_segments(place, partition, time_ms)
    if found is not None:
        return found
    if bounds.sealed_end < bounds.end:
        for run in reader.read(max(bounds.start, bounds.sealed_end), bounds.end, columns=[TIME]):
            if (at := _first(run.batch.column(TIME), time_ms)) is not None:
                return run.offset + at
    return bounds.end


def _in_table(cold: Cold, partition: int, span: Span, time_ms: int) -> int | None:
    table, fields = cold.table, Fields.of(cold.table)
    wanted = parse(f"{TIME} >= '{datetime.fromtimestamp(time_ms / 1000, UTC).isoformat()}'")
    tasks = sorted(plan_files(table, {partition: span}, wanted), key=fields.lowest)
    best: int | None = None
    with calling(f"Reading table {name_of(table)}"):
        for task in tasks:
            if best is not None and fields.lowest(task) >= best:
                break
            file = DataFile(VerifyingFileIO.of(table), task, fields, partition)
            try:
                for offsets, times in file.times(time_ms):
                    hits = offsets[(times >= time_ms) & (offsets >= span.start) & (offsets < span.end)]
                    if len(hits):
                        best = int(hits.min()) if best is None else min(best, int(hits.min()))
            finally:
                file.close()
    return best


def _in_segments(place: TopicPlace, partition: int, time_ms: int) -> int | None:
    store = place.log.store
    index = SegmentIndex(store, place.topic, partition)
    index.refresh()
    for first in index.firsts:
        with open_records(store, index.footer(first)) as file:
            if _newest(file.metadata) < time_ms:
                continue
            offset = first
            for batch in file.iter_batches(columns=[TIME]):
                if (at := _first(batch.column(TIME), time_ms)) is not None:
                    return offset + at
                offset += len(batch)
    return None


def _newest(metadata: pq.FileMetaData) -> float:
    """The time of the newest message in a segment, as its statistics have it; without end if they do not."""
    newest = float("-inf")
    for group in range(metadata.num_row_groups):
        columns = (metadata.row_group(group).column(at) for at in range(metadata.num_columns))
        (statistics,) = (each.statistics for each in columns if each.path_in_schema == TIME)
        if statistics is None or not statistics.has_min_max:
            return float("inf")
        newest = max(newest, statistics.max.timestamp() * 1000)
    return newest


def _first(times: pa.Array, time_ms: int) -> int | None:
    milliseconds = times.cast(pa.timestamp("ms", "UTC")).cast(pa.int64()).fill_null(-(2**63))
    hits = np.flatnonzero(milliseconds.to_numpy(zero_copy_only=False) >= time_ms)
    return int(hits[0]) if len(hits) else None
