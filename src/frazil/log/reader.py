"""Reads a partition: all records of a range of offsets, or an error that says what is missing.

Sealed records come from segments, the others from the tail of the writer, which is in this process or in another one
on this machine. Without a writer here, the partition ends where its segments end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa

from frazil.errors import (
    FrazilIoError,
    LogCorrupted,
    OffsetOutOfRange,
    PartitionDamaged,
    SegmentMissing,
    WalDamaged,
)
from frazil.log.epochs import Epochs
from frazil.log.schema.schema import conform, with_dictionaries
from frazil.log.segments.index import SegmentIndex
from frazil.log.segments.segment import Segment, read_parts, stream_records
from frazil.log.tail import TailView
from frazil.log.topics.schemas import TopicSchemas
from frazil.log.wal.entries import Entry
from frazil.store import ObjectStore

BATCH_ROWS = 65_536


class TailSource(Protocol):
    def view(self, start: int = 0) -> TailView | None:
        """Return the tail from `start` on; None when there is nothing to join with the segments."""

    def promised(self) -> int:
        """Return the offset up to which records were acknowledged, as far as the tail itself can tell."""

    def wait(self, offset: int, timeout: float) -> bool:
        """Block until there is a record at `offset`. Return False when the timeout came first."""

    async def wait_async(self, offset: int, timeout: float) -> bool: ...


class Position(NamedTuple):
    """The position of a reader. Its epoch shows when the records before it did not last."""

    epoch: str
    offset: int


class Records(NamedTuple):
    """Consecutive records. The first one has the offset `offset`."""

    offset: int
    batch: pa.RecordBatch
    epoch: str

    @property
    def end(self) -> int:
        return self.offset + int(self.batch.num_rows)

    @property
    def next(self) -> Position:
        return Position(self.epoch, self.end)


class PartitionBounds(NamedTuple):
    start: int
    sealed_end: int
    end: int
    epochs: Epochs | None


class TailLook(NamedTuple):
    """What a tail showed at one moment."""

    view: TailView | None = None
    promised: int = 0
    damage: WalDamaged | FrazilIoError | None = None


class _ReadPlan(NamedTuple):
    segments: list[Segment]
    border: int
    """Segments are read up to this offset. The last one may go on: WAL files do not begin where segments do."""
    entries: list[Entry]
    schema: pa.Schema
    epochs: Epochs


class _ReadOptions(NamedTuple):
    """Options of `PartitionReader.read`."""

    columns: Sequence[str] | None = None
    piece_bytes: int | None = None
    dictionaries: bool = False


class PartitionReader:
    """Reads one partition. Each reader belongs to one thread or task."""

    def __init__(
        self,
        store: ObjectStore,
        schemas: TopicSchemas,
        topic: str,
        partition: int,
        tail: Callable[[], TailSource | None] = lambda: None,
    ) -> None:
        self.topic = topic
        self.partition = partition
        self._store = store
        self._schemas = schemas
        self._index = SegmentIndex(store, topic, partition)
        self._tail = tail

    @property
    def tail(self) -> TailSource | None:
        return self._tail()

    def bounds(self) -> PartitionBounds:
        """Return which offsets can be read now."""
        view, sealed_end = self._join(0)
        start = self._index.start if self._index.firsts or view is None else view.start
        newest = self._index.newest()
        epochs = view.epochs if view else newest.epochs if newest else None
        return PartitionBounds(start, sealed_end, max(sealed_end, view.end if view else 0), epochs)

    def reach(self, offset: int, segments: int) -> int:
        """Return where the last of so many segments ends, counted from the one that holds `offset`.

        The store is not listed again for it.
        """
        firsts = self._index.firsts
        after = bisect_right(firsts, offset) + segments - 1
        return firsts[after] if after < len(firsts) else self._index.sealed_end()

    def read(
        self,
        start: int,
        end: int | None = None,
        *,
        epoch: str | None = None,
        columns: Sequence[str] | None = None,
        piece_bytes: int | None = None,
        dictionaries: bool = False,
    ) -> Iterator[Records]:
        """Yield the records `[start, end)`; without an end, all there are now.

        With an epoch the position is checked first: `EpochChanged` when it did not last. With `piece_bytes` segments
        are not read whole but in pieces of about that size, so that a slow reader holds little memory. With
        `dictionaries`, texts of segments that are read whole stay dictionary-encoded where they are stored so.
        """
        view, sealed_end = self._join(start, end)
        log_end = max(sealed_end, view.end if view else 0)
        if end is None:
            end = log_end
        if not 0 <= start <= end <= log_end:
            if epoch is not None and (epochs := self._epochs(view)):
                epochs.check(epoch, start, self._where)
            raise OffsetOutOfRange(
                f"{self._where}: asked for offsets {start} to {end}, but the log ends at {log_end}."
            )
        if start == end:
            return iter(())
        plan = self._plan(start, end, view, sealed_end)
        if epoch is not None:
            plan.epochs.check(epoch, start, self._where)
        return self._run(plan, start, end, _ReadOptions(columns, piece_bytes, dictionaries))

    def read_new(self, start: int, epoch: str | None = None) -> Iterator[Records]:
        """Do what `read` does up to the end, but without a request to the store when the tail has it all."""
        source = self._tail()
        try:
            view = source.view(start) if source else None
        except (WalDamaged, FrazilIoError):
            view = None
        if view is None or start < view.start or start > view.end:
            return self.read(start, epoch=epoch)
        if epoch is not None:
            view.epochs.check(epoch, start, self._where)
        if start == view.end:
            return iter(())
        newest = max(view.entries, key=lambda entry: entry.schema_version)
        plan = _ReadPlan([], view.start, view.entries, newest.schema, view.epochs)
        return self._run(plan, start, view.end, _ReadOptions())

    @property
    def _where(self) -> str:
        return f"{self.topic}/{self.partition}"

    def _join(self, start: int, end: int | None = None) -> tuple[TailView | None, int]:
        """Return the tail and the sealed end, read in this order: what leaves the tail meanwhile is in the segments.

        A damaged tail is an error, unless only sealed records are asked for, up to an `end`.
        """
        source = self._tail()
        look = TailLook() if source is None else look_at(source.promised, lambda: source.view(start))
        self._index.refresh()
        return join_tail(look, self._index, self._where, end), self._index.sealed_end()

    def _epochs(self, view: TailView | None) -> Epochs | None:
        newest = self._index.newest()
        return view.epochs if view else newest.epochs if newest else None

    def _plan(self, start: int, end: int, view: TailView | None, sealed_end: int) -> _ReadPlan:
        border = min(end, view.start if view else sealed_end)
        if start < border and start < self._index.start:
            raise self._index.gone(start)
        segments = list(self._index.run(start, border)) if start < border else []
        entries = [e for e in view.entries if e.end > start and e.offset < end] if view else []
        version = max([s.schema_version for s in segments] + [e.schema_version for e in entries])
        epochs = self._epochs(view)
        assert epochs
        return _ReadPlan(segments, border, entries, self._schemas.get(version), epochs)

    def _run(self, plan: _ReadPlan, start: int, end: int, options: _ReadOptions) -> Iterator[Records]:
        schema, columns = plan.schema, options.columns
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns])
        for segment in plan.segments:
            offset = max(start, segment.first)
            count = min(plan.border, segment.end) - offset
            for batch in self._batches(segment, offset - segment.first, count, options):
                wanted = with_dictionaries(schema, batch.schema) if options.dictionaries else schema
                yield Records(offset, conform(batch, wanted), plan.epochs.at(offset))
                offset += batch.num_rows
        for entry in plan.entries:
            offset = max(start, entry.offset)
            batch = entry.batch().slice(offset - entry.offset, min(end, entry.end) - offset)
            if columns is not None:
                there = set(batch.schema.names)
                batch = batch.select([name for name in columns if name in there])
            yield Records(offset, conform(batch, schema), plan.epochs.at(offset))

    def _batches(self, segment: Segment, skip: int, count: int, options: _ReadOptions) -> Iterator[pa.RecordBatch]:
        """Yield `count` records of a segment after the first `skip`."""
        try:
            if options.piece_bytes is None:
                at, end = 0, skip + count
                for part in read_parts(self._store, segment, options.columns, dictionaries=options.dictionaries):
                    first, last = max(0, skip - at), min(part.num_rows, end - at)
                    at += part.num_rows
                    if first < last:
                        yield from part.slice(first, last - first).to_batches(max_chunksize=BATCH_ROWS)
            else:
                yield from stream_records(self._store, segment, skip, count, options.columns, options.piece_bytes)
        except (SegmentMissing, LogCorrupted):
            self._index.refresh()
            if self._index.low > segment.first:
                raise self._index.gone(segment.first) from None
            raise


def look_at(promised: Callable[[], int], view: Callable[[], TailView | None]) -> TailLook:
    """Look at a tail before the segments are listed: what leaves the tail meanwhile is in the segments."""
    known = 0
    try:
        known = promised()
        return TailLook(view(), known)
    except (WalDamaged, FrazilIoError) as error:
        return TailLook(None, known, error)


def join_tail(look: TailLook, index: SegmentIndex, where: str, end: int | None = None) -> TailView | None:
    """Return the tail as far as it goes on behind the segments, which were listed after the look at it.

    A damaged tail is an error, unless only sealed records are asked for, up to an `end`.
    """
    sealed_end = index.sealed_end()
    view, damage = look.view, look.damage
    if damage is None and view is None and look.promised > sealed_end:
        damage = WalDamaged(
            f"records up to offset {look.promised} were acknowledged, but there are no WAL files, and the store has "
            f"records up to {sealed_end} only. `frazil log repair` goes on without them."
        )
    if damage is not None:
        if end is not None and end <= sealed_end:
            return None
        raise PartitionDamaged(where, str(damage)) from damage
    newest = index.newest()
    if view and newest and newest.writer not in view.writers and newest.end > view.start:
        # Somebody else went on with this partition: what this tail holds is not part of the log.
        return None
    return view
