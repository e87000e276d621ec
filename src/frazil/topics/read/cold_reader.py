"""Reads messages of a partition that are not in memory, from segments of the log or else from the table.

The offset alone decides where to read. When trimming, compaction or expiry removes files during a read, the reader
looks up its offset again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from frazil.errors import OffsetGone, OffsetOutOfRange, SegmentMissing, SegmentsGone, StorageError, TableDamaged
from frazil.log.reader import PartitionBounds
from frazil.scan.offset_ranges import OffsetRange
from frazil.topics.messages import MESSAGE, MessageRun
from frazil.topics.read.chunk_cache import CHUNK_BYTES, FileLookup, FileSet, ReaderView, from_offset
from frazil.topics.read.table_runs import TableGap, TableRuns, first_from
from frazil.topics.read.topic_handle import TablePartition, TopicHandle

TRIES = 5
MOST_SEGMENTS = 8
"""So many segments are looked up at a time, because each costs a request before anything is read."""


_SEALED, _TAIL = FileSet(permanent=True), FileSet(permanent=False)
"""These are segments, and what another process has not sealed yet."""
_NOTHING = FileLookup(float("-inf"), _TAIL)


class _ReadPlan(NamedTuple):
    bounds: PartitionBounds
    in_table: TablePartition | None
    """The table is set if the log does not have the messages any more."""
    lookup: FileLookup


class ChunkRead(NamedTuple):
    chunk: MessageRun
    """This is the whole chunk that was read."""
    records: MessageRun
    """These are its messages from the requested offset on."""
    lookup: FileLookup


class ColdReader:
    """Does one thing at a time, on any thread. It continues where it is without looking up files again."""

    def __init__(self, handle: TopicHandle, partition: int) -> None:
        self._handle = handle
        self._where = handle.where(partition)
        self._partition = partition
        self._reader = handle.reader(partition)
        self._chunks: Iterator[MessageRun] | None = None
        self._lookup = _NOTHING
        """The chunks come from these files."""
        self._next = 0
        """The next chunk begins at this offset."""
        self._last: MessageRun | None = None
        """This chunk was read last."""

    def read(self, offset: int, epoch: str | None, view: ReaderView) -> ChunkRead | None:
        """Returns the chunk with an offset, or None when there is nothing yet."""
        for _ in range(TRIES):
            try:
                found = self._chunk_at(offset, epoch, view)
            except (SegmentsGone, SegmentMissing, StorageError) as error:
                self.forget()
                if error.retryable or isinstance(error, TableDamaged):
                    raise
                problem = error
                continue
            return None if found is None else ChunkRead(found, from_offset(found, offset), self._lookup)
        raise problem

    @property
    def is_open(self) -> bool:
        """Returns whether it is at some position in a file."""
        return self._chunks is not None

    def continues_at(self, offset: int, view: ReaderView) -> bool:
        """Returns whether it can continue at an offset, for a reader that may see its files."""
        if self._chunks is None or not view.accepts(self._lookup):
            return False
        return offset == self._next or (self._last is not None and self._last.first <= offset < self._last.end)

    def forget(self) -> None:
        """Makes the next read begin anew."""
        self._chunks = self._last = None

    def find(self, offset: int, epoch: str | None) -> FileLookup | None:
        """Returns where a reader that begins at an offset finds its messages, or None when there is nothing yet."""
        files = self._plan(offset, epoch)
        return None if files is None else files.lookup

    def check(self, epoch: str | None, offset: int) -> None:
        """Raises `EpochChanged` if the position is not part of the log any more."""
        self._check(self._reader.bounds(), epoch, offset)

    def _check(self, bounds: PartitionBounds, epoch: str | None, offset: int) -> None:
        if epoch is not None and bounds.epochs is not None:
            bounds.epochs.check(epoch, offset, self._where)

    def end(self) -> int:
        """Returns where the partition ends now."""
        return self._reader.bounds().end

    def earliest(self) -> int:
        """Returns the first offset after which no message is missing."""
        for _ in range(TRIES):
            now = time.monotonic()
            bounds, in_table = self._bounds_and_table()
            first = _earliest(bounds, in_table)
            if in_table is None or first >= min(bounds.start, in_table.committed):
                return first
            try:
                self._begin(first, _ReadPlan(bounds, in_table, FileLookup(now, _file_set(in_table))))
                self._next_chunk()
                return first
            except OffsetGone as gone:
                self.forget()
                return gone.first_left
            except StorageError as error:
                self.forget()
                if error.retryable or isinstance(error, TableDamaged):
                    raise
                problem = error
        raise problem

    def _bounds_and_table(self) -> tuple[PartitionBounds, TablePartition | None]:
        """Reads the bounds of the log first, because what is trimmed from it meanwhile is in the table."""
        bounds = self._reader.bounds()
        return bounds, self._handle.table_partition(self._partition)

    def _chunk_at(self, offset: int, epoch: str | None, view: ReaderView) -> MessageRun | None:
        if self.continues_at(offset, view):
            last = self._last
            if last is not None and last.first <= offset < last.end and epoch in (None, last.epoch):
                return last
            if self._next == offset and (chunk := self._next_chunk()) is not None:
                return chunk
        self.forget()
        files = self._plan(offset, epoch)
        if files is None:
            return None
        self._begin(offset, files)
        return self._next_chunk()

    def _next_chunk(self) -> MessageRun | None:
        assert self._chunks is not None
        chunk = next(self._chunks, None)
        if chunk is not None:
            self._next = chunk.end
            self._last = chunk
        return chunk

    def _plan(self, offset: int, epoch: str | None) -> _ReadPlan | None:
        """Finds where an offset is. Returns None when nothing is there yet."""
        now = time.monotonic()
        bounds = self._reader.bounds()
        self._check(bounds, epoch, offset)
        if offset > bounds.end:
            raise OffsetOutOfRange(f"{self._where}: asked for offset {offset}, but the topic ends at {bounds.end}.")
        if bounds.start <= offset:
            if offset < bounds.sealed_end:
                return _ReadPlan(bounds, None, FileLookup(now, _SEALED))
            return _ReadPlan(bounds, None, FileLookup(now, _TAIL)) if offset < bounds.end else None
        in_table = self._handle.table_partition(self._partition)
        if in_table is None or offset >= in_table.committed:
            raise self._gone(offset, bounds.start)
        if offset < in_table.complete:
            raise self._gone(offset, _earliest(bounds, in_table))
        return _ReadPlan(bounds, in_table, FileLookup(now, _file_set(in_table)))

    def _begin(self, offset: int, files: _ReadPlan) -> None:
        self._lookup = files.lookup
        bounds = files.bounds
        if files.in_table is not None:
            self._chunks = self._from_table(offset, bounds, files.in_table)
            return
        end = self._reader.reach(offset, MOST_SEGMENTS) if offset < bounds.sealed_end else bounds.end
        self._chunks = self._from_log(offset, end)

    def _from_log(self, offset: int, end: int) -> Iterator[MessageRun]:
        for run in self._reader.read(offset, end, columns=MESSAGE.names, piece_bytes=CHUNK_BYTES):
            yield MessageRun(self._partition, run.offset, run.batch, run.epoch)

    def _from_table(self, offset: int, bounds: PartitionBounds, in_table: TablePartition) -> Iterator[MessageRun]:
        end = min(in_table.committed, bounds.start)
        at = offset
        while at < end:
            try:
                for first, batch in TableRuns(in_table.table, self._partition, OffsetRange(at, end)):
                    epoch = bounds.epochs.at(first) if bounds.epochs else ""
                    yield MessageRun(self._partition, first, batch, epoch)
                    at = first + len(batch)
            except TableGap as gap:
                following = first_from(in_table.table, self._partition, OffsetRange(gap.next, end))
                raise self._gone(at, following if following < in_table.committed else bounds.start) from None

    def _gone(self, offset: int, first_left: int) -> OffsetGone:
        return OffsetGone(
            first_left,
            f"{self._where}: the messages from offset {offset} on are gone: neither the log nor the table has them. "
            f"The first that are left begin at offset {first_left}; go on from there.",
        )


def _earliest(bounds: PartitionBounds, in_table: TablePartition | None) -> int:
    """Returns the first offset after which no message may be missing."""
    if in_table is None:
        return bounds.start
    in_log = bounds.end > bounds.start
    return min(bounds.start, in_table.complete) if in_log else min(in_table.complete, bounds.end)


def _file_set(in_table: TablePartition) -> FileSet:
    snapshot = in_table.table.metadata.current_snapshot_id
    return FileSet(True, (-1 if snapshot is None else snapshot, in_table.complete))
