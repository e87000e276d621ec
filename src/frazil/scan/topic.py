"""Reading a topic: each row asked for is in exactly one part of the plan, and comes from table or log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
from pyiceberg.expressions import BooleanExpression
from pyiceberg.schema import Schema

from frazil.config.model import Config
from frazil.config.sections.section import MIB
from frazil.errors import CallError, OffsetOutOfRange, SegmentsGone
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.complete_offsets import complete_from
from frazil.log import layout
from frazil.log.schema.columns import OFFSET
from frazil.scan.cut import EARLIEST, LATEST, Bound, Division, Span, divide
from frazil.scan.extents import Extent, Tails
from frazil.scan.log_place import LogPlace
from frazil.scan.look import Look, Looker, Read
from frazil.scan.parts import (
    BATCH_ROWS,
    MemoryPart,
    Part,
    SegmentsPart,
    Shape,
    TablePart,
    TailPart,
)
from frazil.scan.predicate import arrow_filter
from frazil.scan.table_files import plan_files

PART_BYTES = 64 * MIB
"""About how much a part reads: enough to be worth a task, little enough to be shared among cores."""
ORDERED_ROWS = 131_072
"""Offsets of a table that are read and ordered at a time."""

_FROM_START = Bound(EARLIEST)
_TO_END = Bound(LATEST)

T = TypeVar("T")


@dataclass(frozen=True)
class Plan:
    shape: Shape
    parts: list[Part]


class TopicRows:
    """Belongs to one thread; the parts it plans belong to anybody."""

    def __init__(
        self,
        config: Config,
        topic: str,
        read: Read = "both",
        *,
        lake: Lake | None = None,
        tails: Tails | None = None,
    ) -> None:
        """`tails` are those of writers in this process that have no WAL: their rows are seen, but provisional."""
        self.topic = layout.check_topic(topic)
        self.mode = read
        self._place = LogPlace(topic, config.store, config.data_dir.absolute())
        self.looker = Looker(config, self._place, read, lake or Lake(config), tails)

    def schema(self) -> Schema:
        """What rows look like now."""
        return self.looker.look(tail=False).schema

    def plan(
        self,
        starts: Bound = _FROM_START,
        ends: Bound = _TO_END,
        *,
        tail: bool = True,
        columns: Callable[[Schema], Sequence[str]] | None = None,
        where: BooleanExpression | None = None,
    ) -> Plan:
        """All rows from `starts` to `ends`; without bounds, all there are now.

        What the table has comes from the table, the rest from the log. `columns` chooses among those there are, and
        `where` among the rows. Where a start is given as an offset, no row after it is missing, or it is
        `SegmentsGone`.
        """
        return self.plan_at(self.looker.look(tail=tail), starts, ends, columns=columns, where=where)

    def plan_at(
        self,
        look: Look,
        starts: Bound = _FROM_START,
        ends: Bound = _TO_END,
        *,
        columns: Callable[[Schema], Sequence[str]] | None = None,
        where: BooleanExpression | None = None,
    ) -> Plan:
        """As `plan`, of the topic as it was when it was looked at; any thread may ask, any number of times."""
        self.check_given(look, starts, ends)
        spans = {partition: self._wanted(look, partition, starts, ends) for partition in look.partitions}
        whole = starts == _FROM_START and ends == _TO_END
        divisions = {
            partition: self._divide_all(look, partition, span)
            if starts.of(partition) == EARLIEST
            else self._divide_complete(look, partition, span)
            for partition, span in spans.items()
        }
        shape = look.shape(columns(look.schema) if columns else None, where)
        arrow_filter(where, shape.schema)
        return Plan(shape, list(self._parts(look, shape, divisions, whole)))

    def plan_spans(
        self, look: Look, spans: Mapping[int, Span], columns: Callable[[Schema], Sequence[str]] | None = None
    ) -> Plan:
        """Exactly these offsets, from the log where it has them, else from the table.

        `SegmentsGone` where rows among them were taken away.
        """
        shape = look.shape(columns(look.schema) if columns else None)
        divisions = {
            partition: self._checked(look, partition, self._divide(look, partition, span))
            for partition, span in spans.items()
        }
        return Plan(shape, list(self._parts(look, shape, divisions, whole=False)))

    def read(self, partition: int, start: int | None = None, end: int | None = None) -> Iterator[pa.RecordBatch]:
        """Rows of one partition in the order of their offsets, a moderate number at a time."""
        look = self.looker.look(tail=True)
        begin = Bound(EARLIEST, {} if start is None else {partition: start})
        stop = Bound(LATEST, {} if end is None else {partition: end})
        self.check_given(look, begin, stop)
        shape = look.shape(None)
        span = self._wanted(look, partition, begin, stop)
        divide = self._divide_all if start is None else self._divide_complete
        table, *rest = divide(look, partition, span)
        for at in range(table.start, table.end, ORDERED_ROWS):
            piece = Span(at, min(at + ORDERED_ROWS, table.end))
            found = [batch for part in self._table_parts(look, shape, {partition: piece}) for batch in part.read()]
            rows = pa.Table.from_batches(found, shape.arrow).sort_by(OFFSET)
            yield from rows.combine_chunks().to_batches(max_chunksize=BATCH_ROWS)
        nothing = Span(table.end, table.end)
        for part in self._parts(look, shape, {partition: Division(nothing, *rest)}, whole=False):
            yield from part.read()

    def earliest(self, look: Look, partition: int) -> int:
        """The first offset from which on all rows are there: where a stream of them begins."""
        extent = look.extent(partition)
        return (
            first_complete(extent, self._complete(look, partition))
            if self._in_table(look, partition)
            else extent.start
        )

    def _in_table(self, look: Look, partition: int) -> bool:
        return self.mode != "log" and partition in look.offsets

    def latest(self, look: Look, partition: int) -> int:
        return max(self._committed(look, partition), look.extent(partition).end)

    def _committed(self, look: Look, partition: int) -> int:
        return look.offsets.get(partition, 0)

    def check_given(self, look: Look, starts: Bound, ends: Bound) -> None:
        there = look.partitions
        if unknown := sorted((starts.given.keys() | ends.given.keys()) - set(there)):
            listed = ", ".join(map(str, there)) or "none"
            raise CallError(f"Topic {self.topic!r} has no partition {unknown[0]}; its partitions: {listed}.")

    def _wanted(self, look: Look, partition: int, starts: Bound, ends: Bound) -> Span:
        # Retention may have taken rows of a table, and left others before them.
        earliest = 0 if self._in_table(look, partition) else look.extent(partition).start
        latest = self.latest(look, partition)
        first, last = starts.of(partition), ends.of(partition)
        span = Span(
            {EARLIEST: earliest, LATEST: latest}.get(first, first),
            {EARLIEST: earliest, LATEST: latest}.get(last, last),
        )
        where = f"{self.topic}/{partition}"
        if span.start < earliest:
            raise SegmentsGone(f"{where}: asked for offset {span.start}, but the first that is left is {earliest}.")
        if max(span) > latest:
            raise OffsetOutOfRange(
                f"{where}: asked for offsets {span.start} to {span.end}, but rows end at {latest}."
            )
        if span.end < span.start:
            raise CallError(f"{where}: the end ({span.end}) is before the start ({span.start}).")
        return span

    def _complete(self, look: Look, partition: int) -> int:
        return complete_from(look.table).get(partition, 0)

    def _divide_all(self, look: Look, partition: int, span: Span) -> Division:
        return divide(span, self._committed(look, partition), look.extent(partition).sealed_end)

    def _divide_complete(self, look: Look, partition: int, span: Span) -> Division:
        """The log may still have what the table has not any more."""
        if span.start >= self._complete(look, partition):
            return self._divide_all(look, partition, span)
        return self._checked(look, partition, self._divide(look, partition, span))

    def _checked(self, look: Look, partition: int, division: Division) -> Division:
        complete = self._complete(look, partition)
        if self.mode != "log" and division.table.rows and division.table.start < complete:
            raise SegmentsGone(
                f"{self.topic}/{partition}: rows after offset {division.table.start} were taken away by the table's "
                f"retention before they were read here; from {complete} on all are there. Begin anew from there, or "
                f"read what is left without naming an offset."
            )
        return division

    def _divide(self, look: Look, partition: int, span: Span) -> Division:
        """As `divide`, at a border as low as the log allows."""
        extent, committed = look.extent(partition), self._committed(look, partition)
        border = extent.start if span.end <= extent.end else span.end
        if span.start < min(border, span.end) and committed < min(border, span.end):
            where = f"{self.topic}/{partition}"
            if span.end > extent.end:
                raise OffsetOutOfRange(
                    f"{where}: offsets {span.start} to {span.end} are not all there any more: the log ends at "
                    f"{extent.end}, the table at {committed}. Start again from an offset you trust."
                )
            raise SegmentsGone(
                f"{where}: offset {span.start} was trimmed from the log, which starts at {extent.start} now, and the "
                f"{'table is not to be read' if self.mode == 'log' else f'table ends at {committed}'}."
            )
        return divide(span, border, extent.sealed_end)

    def _parts(self, look: Look, shape: Shape, divisions: Mapping[int, Division], whole: bool) -> Iterator[Part]:
        spans = {partition: division.table for partition, division in divisions.items()}
        yield from self._table_parts(look, shape, None if whole else spans)
        for partition, (_, segments, tail) in sorted(divisions.items()):
            sealed = look.extent(partition).between(*segments) if segments.rows else ()
            for group in _gathered(sealed, lambda each: each.bytes):
                span = Span(max(segments.start, group[0].first), min(segments.end, group[-1].end))
                yield SegmentsPart(self._place, shape, partition, span, tuple(group))
            entries = look.extent(partition).tail
            if tail.rows and entries is not None:
                yield MemoryPart.of(shape, partition, tail, entries)
            elif tail.rows:
                yield TailPart(self._place, shape, partition, tail)

    def _table_parts(self, look: Look, shape: Shape, spans: dict[int, Span] | None) -> Iterator[TablePart]:
        if look.table is None or self.mode == "log":
            return
        files = plan_files(look.table, spans, shape.where)
        for group in _gathered(files, lambda task: task.file.file_size_in_bytes):
            yield TablePart.of(look.table, shape, tuple(group), spans)


def first_complete(extent: Extent, complete: int) -> int:
    """Where rows begin that are all there, of a partition that the table has rows of."""
    return min(extent.start, complete) if extent.segments else complete


def _gathered(things: Iterable[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """Neighbours joined until they have about as many bytes as a part should."""
    group: list[T] = []
    total = 0
    for thing in things:
        if group and total + size(thing) > PART_BYTES:
            yield group
            group, total = [], 0
        group.append(thing)
        total += size(thing)
    if group:
        yield group
