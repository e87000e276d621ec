"""Plans the reading of a topic: each row is in exactly one task of the plan, and comes from table or log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
from pyiceberg.schema import Schema

from frazil.config.model import Config
from frazil.config.sections.section import MIB
from frazil.errors import CallError, OffsetOutOfRange, SegmentsGone
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.complete_offsets import complete_from
from frazil.log import layout
from frazil.log.schema.columns import OFFSET
from frazil.scan.log_extents import LogExtent, Tails
from frazil.scan.log_location import LogLocation
from frazil.scan.offset_ranges import EARLIEST, LATEST, Bound, OffsetRange, SourceRanges, split_by_source
from frazil.scan.predicates.arrow import check
from frazil.scan.predicates.iceberg import to_iceberg
from frazil.scan.predicates.tree import Predicate
from frazil.scan.scan_tasks import (
    BATCH_ROWS,
    MemoryScanTask,
    Projection,
    ScanTask,
    SegmentScanTask,
    TableScanTask,
    TailScanTask,
)
from frazil.scan.table_files import plan_files
from frazil.scan.topic_snapshot import Read, TopicSnapshot, TopicSnapshots

TASK_BYTES = 64 * MIB
"""A task reads about this much: enough to be worth its overhead, and little enough to share the work among cores."""
ORDERED_ROWS = 131_072
"""This many offsets of a table are read and sorted at a time."""

_FROM_START = Bound(EARLIEST)
_TO_END = Bound(LATEST)

T = TypeVar("T")


@dataclass(frozen=True)
class ScanPlan:
    projection: Projection
    tasks: list[ScanTask]


class TopicRows:
    """Plans scans of one topic. It belongs to one thread; any thread may read the tasks that it plans."""

    def __init__(
        self,
        config: Config,
        topic: str,
        read: Read = "both",
        *,
        lake: Lake | None = None,
        tails: Tails | None = None,
    ) -> None:
        """`tails` returns those of writers in this process without a WAL. Their rows are visible, but provisional."""
        self.topic = layout.check_topic(topic)
        self.mode = read
        self._location = LogLocation(topic, config.store, config.data_dir.absolute())
        self.snapshots = TopicSnapshots(config, self._location, read, lake or Lake(config), tails)

    def schema(self) -> Schema:
        """Returns the current schema of the rows."""
        return self.snapshots.take(tail=False).schema

    def plan(
        self,
        starts: Bound = _FROM_START,
        ends: Bound = _TO_END,
        *,
        tail: bool = True,
        columns: Callable[[Schema], Sequence[str]] | None = None,
        where: Predicate | None = None,
    ) -> ScanPlan:
        """Plans a scan of all rows from `starts` to `ends`, by default of all there are now.

        Rows come from the table where it has them, else from the log. `columns` chooses among the columns, and
        `where` among the rows. If a start is an offset and rows after it are missing, this raises `SegmentsGone`.
        """
        return self.plan_at(self.snapshots.take(tail=tail), starts, ends, columns=columns, where=where)

    def plan_at(
        self,
        snapshot: TopicSnapshot,
        starts: Bound = _FROM_START,
        ends: Bound = _TO_END,
        *,
        columns: Callable[[Schema], Sequence[str]] | None = None,
        where: Predicate | None = None,
    ) -> ScanPlan:
        """Plans like `plan`, for the topic as it was in `snapshot`. Any thread may call it, any number of times."""
        self.check_partitions(snapshot, starts, ends)
        ranges = {partition: self._wanted(snapshot, partition, starts, ends) for partition in snapshot.partitions}
        whole = starts == _FROM_START and ends == _TO_END
        splits = {
            partition: self._split_all(snapshot, partition, offset_range)
            if starts.of(partition) == EARLIEST
            else self._split_complete(snapshot, partition, offset_range)
            for partition, offset_range in ranges.items()
        }
        projection = snapshot.projection(columns(snapshot.schema) if columns else None, where)
        if where is not None:
            check(where, snapshot.projection(None).arrow)
        return ScanPlan(projection, list(self._tasks(snapshot, projection, splits, whole)))

    def plan_ranges(
        self,
        snapshot: TopicSnapshot,
        ranges: Mapping[int, OffsetRange],
        columns: Callable[[Schema], Sequence[str]] | None = None,
    ) -> ScanPlan:
        """Plans a scan of exactly these offsets, from the log where it has them, else from the table.

        It raises `SegmentsGone` where retention has removed rows among them.
        """
        projection = snapshot.projection(columns(snapshot.schema) if columns else None)
        splits = {
            partition: self._checked(snapshot, partition, self._split(snapshot, partition, offset_range))
            for partition, offset_range in ranges.items()
        }
        return ScanPlan(projection, list(self._tasks(snapshot, projection, splits, whole=False)))

    def read(self, partition: int, start: int | None = None, end: int | None = None) -> Iterator[pa.RecordBatch]:
        """Yields rows of one partition in the order of their offsets, a moderate number at a time."""
        snapshot = self.snapshots.take(tail=True)
        begin = Bound(EARLIEST, {} if start is None else {partition: start})
        stop = Bound(LATEST, {} if end is None else {partition: end})
        self.check_partitions(snapshot, begin, stop)
        projection = snapshot.projection(None)
        offset_range = self._wanted(snapshot, partition, begin, stop)
        split_by_source = self._split_all if start is None else self._split_complete
        table, *rest = split_by_source(snapshot, partition, offset_range)
        for at in range(table.start, table.end, ORDERED_ROWS):
            step = OffsetRange(at, min(at + ORDERED_ROWS, table.end))
            found = [
                batch for task in self._table_tasks(snapshot, projection, {partition: step}) for batch in task.read()
            ]
            rows = pa.Table.from_batches(found, projection.arrow).sort_by(OFFSET)
            yield from rows.combine_chunks().to_batches(max_chunksize=BATCH_ROWS)
        nothing = OffsetRange(table.end, table.end)
        for task in self._tasks(snapshot, projection, {partition: SourceRanges(nothing, *rest)}, whole=False):
            yield from task.read()

    def earliest(self, snapshot: TopicSnapshot, partition: int) -> int:
        """Returns the first offset after which no row is missing: a stream begins there."""
        extent = snapshot.extent(partition)
        return (
            first_complete(extent, self._complete(snapshot, partition))
            if self._in_table(snapshot, partition)
            else extent.start
        )

    def _in_table(self, snapshot: TopicSnapshot, partition: int) -> bool:
        return self.mode != "log" and partition in snapshot.offsets

    def latest(self, snapshot: TopicSnapshot, partition: int) -> int:
        return max(self._committed(snapshot, partition), snapshot.extent(partition).end)

    def _committed(self, snapshot: TopicSnapshot, partition: int) -> int:
        return snapshot.offsets.get(partition, 0)

    def check_partitions(self, snapshot: TopicSnapshot, starts: Bound, ends: Bound) -> None:
        there = snapshot.partitions
        if unknown := sorted((starts.given.keys() | ends.given.keys()) - set(there)):
            listed = ", ".join(map(str, there)) or "none"
            raise CallError(f"Topic {self.topic!r} has no partition {unknown[0]}; its partitions: {listed}.")

    def _wanted(self, snapshot: TopicSnapshot, partition: int, starts: Bound, ends: Bound) -> OffsetRange:
        # Retention may have removed rows of a table, and left others before them.
        earliest = 0 if self._in_table(snapshot, partition) else snapshot.extent(partition).start
        latest = self.latest(snapshot, partition)
        first, last = starts.of(partition), ends.of(partition)
        offset_range = OffsetRange(
            {EARLIEST: earliest, LATEST: latest}.get(first, first),
            {EARLIEST: earliest, LATEST: latest}.get(last, last),
        )
        where = f"{self.topic}/{partition}"
        if offset_range.start < earliest:
            raise SegmentsGone(
                f"{where}: asked for offset {offset_range.start}, but the first that is left is {earliest}."
            )
        if max(offset_range) > latest:
            raise OffsetOutOfRange(
                f"{where}: asked for offsets {offset_range.start} to {offset_range.end}, but rows end at {latest}."
            )
        if offset_range.end < offset_range.start:
            raise CallError(f"{where}: the end ({offset_range.end}) is before the start ({offset_range.start}).")
        return offset_range

    def _complete(self, snapshot: TopicSnapshot, partition: int) -> int:
        return complete_from(snapshot.table).get(partition, 0)

    def _split_all(self, snapshot: TopicSnapshot, partition: int, offset_range: OffsetRange) -> SourceRanges:
        return split_by_source(
            offset_range, self._committed(snapshot, partition), snapshot.extent(partition).sealed_end
        )

    def _split_complete(self, snapshot: TopicSnapshot, partition: int, offset_range: OffsetRange) -> SourceRanges:
        """Splits a range. The log may still have rows that the table has no more."""
        if offset_range.start >= self._complete(snapshot, partition):
            return self._split_all(snapshot, partition, offset_range)
        return self._checked(snapshot, partition, self._split(snapshot, partition, offset_range))

    def _checked(self, snapshot: TopicSnapshot, partition: int, split: SourceRanges) -> SourceRanges:
        complete = self._complete(snapshot, partition)
        if self.mode != "log" and split.table.rows and split.table.start < complete:
            raise SegmentsGone(
                f"{self.topic}/{partition}: rows after offset {split.table.start} were taken away by the table's "
                f"retention before they were read here; from {complete} on all are there. Begin anew from there, or "
                f"read what is left without naming an offset."
            )
        return split

    def _split(self, snapshot: TopicSnapshot, partition: int, offset_range: OffsetRange) -> SourceRanges:
        """Splits a range like `split_by_source`, with the border as low as the log allows."""
        extent, committed = snapshot.extent(partition), self._committed(snapshot, partition)
        border = extent.start if offset_range.end <= extent.end else offset_range.end
        if offset_range.start < min(border, offset_range.end) and committed < min(border, offset_range.end):
            where = f"{self.topic}/{partition}"
            if offset_range.end > extent.end:
                raise OffsetOutOfRange(
                    f"{where}: offsets {offset_range.start} to {offset_range.end} are not all there any more: the "
                    f"log ends at {extent.end}, the table at {committed}. Start again from an offset you trust."
                )
            raise SegmentsGone(
                f"{where}: offset {offset_range.start} was trimmed from the log, which starts at {extent.start} now, "
                f"and the {'table is not to be read' if self.mode == 'log' else f'table ends at {committed}'}."
            )
        return split_by_source(offset_range, border, extent.sealed_end)

    def _tasks(
        self, snapshot: TopicSnapshot, projection: Projection, splits: Mapping[int, SourceRanges], whole: bool
    ) -> Iterator[ScanTask]:
        ranges = {partition: split.table for partition, split in splits.items()}
        yield from self._table_tasks(snapshot, projection, None if whole else ranges)
        for partition, (_, segments, tail) in sorted(splits.items()):
            sealed = snapshot.extent(partition).segments_between(*segments) if segments.rows else ()
            for group in _grouped_by_size(sealed, lambda each: each.bytes):
                offset_range = OffsetRange(max(segments.start, group[0].first), min(segments.end, group[-1].end))
                yield SegmentScanTask(self._location, projection, partition, offset_range, tuple(group))
            entries = snapshot.extent(partition).tail
            if tail.rows and entries is not None:
                yield MemoryScanTask.of(projection, partition, tail, entries)
            elif tail.rows:
                yield TailScanTask(self._location, projection, partition, tail)

    def _table_tasks(
        self, snapshot: TopicSnapshot, projection: Projection, ranges: dict[int, OffsetRange] | None
    ) -> Iterator[TableScanTask]:
        if snapshot.table is None or self.mode == "log":
            return
        wanted = to_iceberg(projection.where, snapshot.table.schema())
        files = plan_files(snapshot.table, ranges, wanted)
        for group in _grouped_by_size(files, lambda task: task.file.file_size_in_bytes):
            yield TableScanTask.of(snapshot.table, projection, tuple(group), ranges)


def first_complete(extent: LogExtent, complete: int) -> int:
    """Returns the offset after which no row is missing, for a partition that the table has rows of."""
    return min(extent.start, complete) if extent.segments else complete


def _grouped_by_size(things: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """Groups neighbours until a group has about `TASK_BYTES`."""
    group: list[T] = []
    total = 0
    for thing in things:
        if group and total + size(thing) > TASK_BYTES:
            yield group
            group, total = [], 0
        group.append(thing)
        total += size(thing)
    if group:
        yield group
