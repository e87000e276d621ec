"""Following a topic in batches: how far the next one goes, and what is in it.

Only sealed records are taken: their offsets last. A position carries the epoch of the record before it, so that a log
that was put back to an older state, or replaced, is noticed instead of being read on from the middle.
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
from frazil.scan.cut import EARLIEST, LATEST, Bound, Span
from frazil.scan.extents import NOTHING, Extent, Sealed
from frazil.scan.look import Look
from frazil.scan.topic import Plan, TopicRows, first_complete

TABLE_STEP = 65_536
"""Offsets of a table that a batch takes or leaves together."""

Positions = Mapping[int, Position]


@dataclass(frozen=True)
class BatchLimits:
    """A batch ends at whichever comes first; it has at least one row if there are any."""

    rows: int | None = None
    bytes: int | None = None


class Progress:
    """The batches of one stream, one after another. Belongs to one thread."""

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
        """Where a stream begins that never was; however often it is asked, the answer is the first one."""
        if self._initial is None:
            look = self._rows.looker.look(tail=False)
            self._rows.check_given(look, self._starts, self._starts)
            self._initial = {partition: self._start(look, partition) for partition in look.partitions}
        return dict(self._initial)

    def next_end(self) -> Positions:
        """Where the next batch ends; where the last one ended if there is nothing to read.

        Who asks again and again is made to wait a little: looking at a store costs a request.
        """
        if self._at is None:
            self._at = dict(self.initial())
        self._clock.sleep(max(0.0, self._due - self._clock.monotonic()))
        at, extents = self._at, self._rows.looker.extents(tail=False)
        table = _Behind(self._rows, at, extents)
        runs = {
            partition: self._pieces(partition, at.get(partition), extents.get(partition, NOTHING), table)
            for partition in self._in_turn(sorted(extents.keys() | table.offsets.keys() | at.keys()))
        }
        moved = {
            partition: _position(extents.get(partition, NOTHING), end)
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
    ) -> Plan | None:
        """The batch between two positions; None if nothing is in it. The next one begins where it ends."""
        self._at = dict(end)
        if not any(start.get(partition) != position for partition, position in end.items()):
            return None
        look = self._rows.looker.look(tail=False)
        spans = {}
        for partition, position in end.items():
            before = start.get(partition)
            first = before.offset if before else self._rows.earliest(look, partition)
            if first < position.offset:
                spans[partition] = Span(first, position.offset)
                self._check(partition, before, look.extent(partition))
        return self._rows.plan_spans(look, spans, columns)

    def _start(self, look: Look, partition: int) -> Position:
        start = self._starts.of(partition)
        if start == EARLIEST:
            start = self._rows.earliest(look, partition)
        elif start == LATEST:
            start = self._rows.latest(look, partition)
        return _position(look.extent(partition), start)

    def _in_turn(self, partitions: list[int]) -> list[int]:
        """Each batch begins with another partition: a busy one may fill it alone."""
        first = self._turn % max(1, len(partitions))
        return partitions[first:] + partitions[:first]

    def _check(self, partition: int, position: Position | None, extent: Extent) -> None:
        if position is not None and position.epoch and extent.epochs is not None:
            extent.epochs.check(position.epoch, position.offset, f"{self._rows.topic}/{partition}")

    def _pieces(self, partition: int, at: Position | None, extent: Extent, table: _Behind) -> Iterator[Sealed]:
        """What there is after a position."""
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
            yield Sealed(low, high, int(table.row_bytes * (high - low)))
        start = max(first, border)
        for each in extent.between(start, end):
            low = max(start, each.first)
            yield Sealed(low, each.end, each.bytes * (each.end - low) // max(1, each.end - each.first))


class _Behind:
    """What the table says, asked only when the log alone is not enough."""

    def __init__(self, rows: TopicRows, at: Positions, extents: Mapping[int, Extent]) -> None:
        trimmed = any(
            extent.start > (at[partition].offset if partition in at else 0) for partition, extent in extents.items()
        )
        table = rows.looker.table() if rows.mode == "table" or (rows.mode == "both" and trimmed) else None
        self.offsets: Mapping[int, int] = TableState.of(table).offsets if table is not None else {}
        self.complete = complete_from(table)
        self.row_bytes = _row_bytes(table) if table is not None else 0.0


def _row_bytes(table: Table) -> float:
    summary = current_snapshot(table).summary
    said = summary.additional_properties if summary else {}
    return int(said.get("total-files-size", 0)) / max(1, int(said.get("total-records", 0)))


def _position(extent: Extent, offset: int) -> Position:
    return Position(extent.epochs.at(offset - 1) if extent.epochs and offset > 0 else "", offset)


def _take(runs: Mapping[int, Iterator[Sealed]], limits: BatchLimits) -> dict[int, int]:
    """Where each partition gets to when each gives a piece in turn until the batch is full."""
    rows = limits.rows if limits.rows is not None else float("inf")
    size = limits.bytes if limits.bytes is not None else float("inf")
    ends: dict[int, int] = {}
    waiting = dict(runs)
    while waiting and rows > 0 and size > 0:
        for partition in list(waiting):
            if rows <= 0 or size <= 0:
                break
            piece = next(waiting[partition], None)
            if piece is None:
                del waiting[partition]
                continue
            ends[partition] = int(min(piece.end, piece.first + rows))
            rows -= piece.end - piece.first
            size -= piece.bytes
    return ends
