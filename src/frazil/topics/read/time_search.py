"""Finds the first message that was published at a time or later.

Producers set the publish time, so times need not grow with offsets. We look for the smallest offset with such a time.
Data files, row groups and segments are skipped if their statistics say that everything in them is older. Of the
others only the times are read.
"""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from frazil.errors import SegmentMissing, SegmentsGone, StorageError, TableDamaged
from frazil.lake.catalog.calls import calling
from frazil.lake.checksums.verifying_io import VerifyingFileIO
from frazil.lake.commit.offsets import name_of
from frazil.log.segments.index import SegmentIndex
from frazil.log.segments.segment import open_records
from frazil.scan.offset_ranges import OffsetRange
from frazil.scan.predicates.iceberg import to_iceberg
from frazil.scan.predicates.tree import Column, Comparison
from frazil.scan.table_files import plan_files
from frazil.topics.read.data_file import ColumnIds, DataFile
from frazil.topics.read.topic_handle import TablePartition, TopicHandle

TIME = "publish_time"
TRIES = 5


def first_since(handle: TopicHandle, partition: int, time_ms: int) -> int:
    """Returns the offset of that message, or the end of the partition when there is none."""
    for _ in range(TRIES):
        try:
            return _first_since(handle, partition, time_ms)
        except (SegmentsGone, SegmentMissing, StorageError) as error:
            if error.retryable or isinstance(error, TableDamaged):
                raise
            # Files were trimmed or compacted meanwhile, and their messages are elsewhere now.
            problem = error
    raise problem


def _first_since(handle: TopicHandle, partition: int, time_ms: int) -> int:
    reader = handle.reader(partition)
    bounds = reader.bounds()
    in_table = handle.table_partition(partition) if bounds.start > 0 else None
    if in_table is not None:
        offset_range = OffsetRange(in_table.complete, min(in_table.committed, bounds.start))
        found = _in_table(in_table, partition, offset_range, time_ms) if offset_range.rows else None
        if found is not None:
            return found
    found = _in_segments(handle, partition, time_ms)
    if found is not None:
        return found
    if bounds.sealed_end < bounds.end:
        for run in reader.read(max(bounds.start, bounds.sealed_end), bounds.end, columns=[TIME]):
            if (at := _first(run.batch.column(TIME), time_ms)) is not None:
                return run.offset + at
    return bounds.end


def _in_table(in_table: TablePartition, partition: int, offset_range: OffsetRange, time_ms: int) -> int | None:
    table, fields = in_table.table, ColumnIds.of(in_table.table)
    later = Comparison(Column(TIME), ">=", datetime.fromtimestamp(time_ms / 1000, UTC))
    wanted = to_iceberg(later, table.schema())
    tasks = sorted(plan_files(table, {partition: offset_range}, wanted), key=fields.lowest)
    best: int | None = None
    with calling(f"Reading table {name_of(table)}"):
        for task in tasks:
            if best is not None and fields.lowest(task) >= best:
                break
            file = DataFile(VerifyingFileIO.of(table), task, fields, partition)
            try:
                for offsets, times in file.times(time_ms):
                    hits = offsets[
                        (times >= time_ms) & (offsets >= offset_range.start) & (offsets < offset_range.end)
                    ]
                    if len(hits):
                        best = int(hits.min()) if best is None else min(best, int(hits.min()))
            finally:
                file.close()
    return best


def _in_segments(handle: TopicHandle, partition: int, time_ms: int) -> int | None:
    store = handle.log.store
    index = SegmentIndex(store, handle.topic, partition)
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
    """Returns the time of the newest message in a segment from its statistics, or infinity if there are none."""
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
