"""Plans the micro-batches of a stream: how far the next one goes, and what is in it.

Only sealed records are read, because their offsets are final. A position carries the epoch of the record before it,
so that we notice when a log was restored to an older state or replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from pyiceberg.schema import Schema
from pyiceberg.table import Table

from frazil.clock import Clock, SystemClock
from frazil.errors import OffsetOutOfRange
from frazil.lake.commit.complete_offsets import complete_from
from frazil.lake.commit.offsets import TableState, current_snapshot
from frazil.log.follow import STORE_POLL_SECONDS
from frazil.log.reader import Position
from frazil.scan.log_extents import EMPTY_EXTENT, LogExtent, SealedSegment
from frazil.scan.offset_ranges import EARLIEST, LATEST, Bound, OffsetRange
from frazil.scan.topic_rows import ScanPlan, TopicRows, first_complete
from frazil.scan.topic_snapshot import TopicSnapshot

TABLE_STEP = 65_536
"""A batch takes or leaves this many offsets of a table together."""

Positions = Mapping[int, Position]


@dataclass(frozen=True)
class BatchLimits:
    """Bounds a batch: it ends at the limit that is reached first, and has at least one row if there are any."""

    rows: int | None = None
    bytes: int | None = None


class MicroBatchPlanner:
    """Plans the batches of one stream, one after another. Belongs to one thread."""

    def __init__(self, rows: TopicRows, starts: Bound, limits: BatchLimits, clock: Clock | None = None) -> None:
        self._rows = rows
        self._starts = starts
        self._limits = limits
        self._clock = clock or SystemClock()
        self._initial: dict[int, Position] | None = None
        self._at: dict[int, Position] | None = None
        self._due = float("-inf")
        self._turn = 0

    def initial(self) -> Positions:
        """Returns where a new stream begins. The first answer is kept, however often it is asked."""
        if self._initial is None:
            snapshot = self._rows.snapshots.take(tail=False)
            self._rows.check_partitions(snapshot, self._starts, self._starts)
            self._initial = {partition: self._start(snapshot, partition) for partition in snapshot.partitions}
        return dict(self._initial)

    def next_end(self) -> Positions:
        """Returns where the next batch ends, or where the last one ended if there is nothing to read.

        It makes a caller that polls wait a little, because each look at a store costs a request.
        """
        if self._at is None:
            self._at = dict(self.initial())
        self._clock.sleep(max(0.0, self._due - self._clock.monotonic()))
        at, extents = self._at, self._rows.snapshots.extents(tail=False)
        table = _TableFallback(self._rows, at, extents)
        runs = {
            partition: self._available(partition, at.get(partition), extents.get(partition, EMPTY_EXTENT), table)
            for partition in self._in_turn(sorted(extents.keys() | table.offsets.keys() | at.keys()))
        }
        moved = {
            partition: _position(extents.get(partition, EMPTY_EXTENT), end)
            for partition, end in _take(runs, self._limits).items()
        }
        self._at = dict(sorted({**at, **moved}.items()))
        if moved:
            self._turn += 1
        else:
            self._due = self._clock.monotonic() + STORE_POLL_SECONDS
        return dict(self._at)

    def plan(
        self, start: Positions, end: Positions, columns: Callable[[Schema], Sequence[str]] | None = None
    ) -> ScanPlan | None:
        """Returns the batch between two positions, or None if it is empty. The next batch begins where it ends."""
        self._at = dict(end)
        if not any(start.get(partition) != position for partition, position in end.items()):
            return None
        snapshot = self._rows.snapshots.take(tail=False)
        ranges = {}
        for partition, position in end.items():
            before = start.get(partition)
            first = before.offset if before else self._rows.earliest(snapshot, partition)
            if first < position.offset:
                ranges[partition] = OffsetRange(first, position.offset)
                self._check(partition, before, snapshot.extent(partition))
        return self._rows.plan_ranges(snapshot, ranges, columns)

    def _start(self, snapshot: TopicSnapshot, partition: int) -> Position:
        start = self._starts.of(partition)
        if start == EARLIEST:
            start = self._rows.earliest(snapshot, partition)
        elif start == LATEST:
            start = self._rows.latest(snapshot, partition)
        return _position(snapshot.extent(partition), start)

    def _in_turn(self, partitions: list[int]) -> list[int]:
        """Rotates the partitions from batch to batch, because a busy partition may fill a batch alone."""
        first = self._turn % max(1, len(partitions))
        return partitions[first:] + partitions[:first]

    def _check(self, partition: int, position: Position | None, extent: LogExtent) -> None:
        if position is not None and position.epoch and extent.epochs is not None:
            extent.epochs.check(position.epoch, position.offset, f"{self._rows.topic}/{partition}")

    def _available(
        self, partition: int, at: Position | None, extent: LogExtent, table: _TableFallback
    ) -> Iterator[SealedSegment]:
        """Yields the ranges that can be read after a position, with their sizes."""
        self._check(partition, at, extent)
        committed = table.offsets.get(partition, 0)
        if at is not None:
            first = at.offset
        else:
            first = first_complete(extent, table.complete.get(partition, 0)) if committed else extent.start
        end = max(extent.sealed_end, committed)
        if first > end:
            raise OffsetOutOfRange(
                f"{self._rows.topic}/{partition}: the stream is at offset {first}, but the log ends at {end}. The "
                f"log has lost records, or is another one: start a new stream from an offset you trust."
            )
        border = min(committed, extent.start) if extent.segments else committed
        for low in range(first, border, TABLE_STEP):
            high = min(low + TABLE_STEP, border)
            yield SealedSegment(low, high, int(table.row_bytes * (high - low)))
        start = max(first, border)
        for each in extent.segments_between(start, end):
            low = max(start, each.first)
            yield SealedSegment(low, each.end, each.bytes * (each.end - low) // max(1, each.end - each.first))


class _TableFallback:
    """Has what the table says. It loads the table only when the log alone is not enough."""

    def __init__(self, rows: TopicRows, at: Positions, extents: Mapping[int, LogExtent]) -> None:
        trimmed = any(
            extent.start > (at[partition].offset if partition in at else 0) for partition, extent in extents.items()
        )
        table = rows.snapshots.table() if rows.mode == "table" or (rows.mode == "both" and trimmed) else None
        self.offsets: Mapping[int, int] = TableState.of(table).offsets if table is not None else {}
        self.complete = complete_from(table)
        self.row_bytes = _row_bytes(table) if table is not None else 0.0


def _row_bytes(table: Table) -> float:
    summary = current_snapshot(table).summary
    summary_properties = summary.additional_properties if summary else {}
    return int(summary_properties.get("total-files-size", 0)) / max(
        1, int(summary_properties.get("total-records", 0))
    )


def _position(extent: LogExtent, offset: int) -> Position:
    return Position(extent.epochs.at(offset - 1) if extent.epochs and offset > 0 else "", offset)


def _take(runs: Mapping[int, Iterator[SealedSegment]], limits: BatchLimits) -> dict[int, int]:
    """Returns how far each partition gets when they take turns until the batch is full."""
    rows = limits.rows if limits.rows is not None else float("inf")
    size = limits.bytes if limits.bytes is not None else float("inf")
    ends: dict[int, int] = {}
    waiting = dict(runs)
    while waiting and rows > 0 and size > 0:
        for partition in list(waiting):
            if rows <= 0 or size <= 0:
                break
            available = next(waiting[partition], None)
            if available is None:
                del waiting[partition]
                continue
            ends[partition] = int(min(available.end, available.first + rows))
            rows -= available.end - available.first
            size -= available.bytes
    return ends
