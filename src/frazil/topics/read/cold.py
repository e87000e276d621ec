"""Reading a partition where its messages are not in memory: segments of the log, else the table.

What is read next is decided by the offset alone. When files vanish under a reader, by trimming, compaction or expiry,
it looks again where its offset is now.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

from frazil.errors import OffsetGone, OffsetOutOfRange, SegmentMissing, SegmentsGone, StorageError, TableDamaged
from frazil.log.reader import Bounds
from frazil.scan.offset_ranges import OffsetRange
from frazil.topics.messages import MESSAGE, Records
from frazil.topics.read.cache import PIECE_BYTES, Found, Origin, View, since
from frazil.topics.read.table_runs import Hole, TableRuns, first_from
from frazil.topics.read.topic_place import Cold, TopicPlace

TRIES = 5
MOST_SEGMENTS = 8
"""Segments that are looked up at a time: each costs a request before anything of it is read."""


_SEALED, _TAIL = Origin(lasts=True), Origin(lasts=False)
"""Segments, and what another process has not sealed yet."""
_NOTHING = Found(float("-inf"), _TAIL)


class _Files(NamedTuple):
    bounds: Bounds
    cold: Cold | None
    """The table, if the log does not have it any more."""
    found: Found


class Read(NamedTuple):
    piece: Records
    """All that was read at a time."""
    records: Records
    """From the offset on that was asked for."""
    found: Found


class ColdReader:
    """Answers one question at a time, from any thread. Goes on where it stands without looking for files anew."""

    def __init__(self, place: TopicPlace, partition: int) -> None:
        self._place = place
        self._where = place.where(partition)
        self._partition = partition
        self._reader = place.reader(partition)
        self._pieces: Iterator[Records] | None = None
        self._found = _NOTHING
        """Where the pieces come from."""
        self._next = 0
        """The offset of the piece that comes next."""
        self._last: Records | None = None
        """The piece that was read last."""

    def read(self, offset: int, epoch: str | None, view: View) -> Read | None:
        """The piece with an offset; None when there is nothing yet."""
        for _ in range(TRIES):
            try:
                found = self._at(offset, epoch, view)
            except (SegmentsGone, SegmentMissing, StorageError) as error:
                self.forget()
                if error.retryable or isinstance(error, TableDamaged):
                    raise
                problem = error
                continue
            return None if found is None else Read(found, since(found, offset), self._found)
        raise problem

    @property
    def is_open(self) -> bool:
        """It stands somewhere in a file."""
        return self._pieces is not None

    def goes_on(self, offset: int, view: View) -> bool:
        """Whether it can read on at an offset, for somebody who may be shown that."""
        if self._pieces is None or not view.accepts(self._found):
            return False
        return offset == self._next or (self._last is not None and self._last.first <= offset < self._last.end)

    def forget(self) -> None:
        """Begin anew with the next read."""
        self._pieces = self._last = None

    def find(self, offset: int, epoch: str | None) -> Found | None:
        """Where a reader that begins at an offset finds its messages; None when there is nothing yet."""
        files = self._find(offset, epoch)
        return None if files is None else files.found

    def check(self, epoch: str | None, offset: int) -> None:
        """`EpochChanged` when a position did not last."""
        self._check(self._reader.bounds(), epoch, offset)

    def _check(self, bounds: Bounds, epoch: str | None, offset: int) -> None:
        if epoch is not None and bounds.epochs is not None:
            bounds.epochs.check(epoch, offset, self._where)

    def end(self) -> int:
        """Where the partition ends now."""
        return self._reader.bounds().end

    def earliest(self) -> int:
        """The first offset from which on all messages are there."""
        for _ in range(TRIES):
            now = time.monotonic()
            bounds, cold = self._look()
            first = _earliest(bounds, cold)
            if cold is None or first >= min(bounds.start, cold.committed):
                return first
            try:
                self._begin(first, _Files(bounds, cold, Found(now, _origin(cold))))
                self._piece()
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

    def _look(self) -> tuple[Bounds, Cold | None]:
        """The log first: what is trimmed from it is in the table."""
        bounds = self._reader.bounds()
        return bounds, self._place.cold(self._partition)

    def _at(self, offset: int, epoch: str | None, view: View) -> Records | None:
        if self.goes_on(offset, view):
            last = self._last
            if last is not None and last.first <= offset < last.end and epoch in (None, last.epoch):
                return last
            if self._next == offset and (piece := self._piece()) is not None:
                return piece
        self.forget()
        files = self._find(offset, epoch)
        if files is None:
            return None
        self._begin(offset, files)
        return self._piece()

    def _piece(self) -> Records | None:
        assert self._pieces is not None
        piece = next(self._pieces, None)
        if piece is not None:
            self._next = piece.end
            self._last = piece
        return piece

    def _find(self, offset: int, epoch: str | None) -> _Files | None:
        """Where an offset is; None when nothing is there yet."""
        now = time.monotonic()
        bounds = self._reader.bounds()
        self._check(bounds, epoch, offset)
        if offset > bounds.end:
            raise OffsetOutOfRange(f"{self._where}: asked for offset {offset}, but the topic ends at {bounds.end}.")
        if bounds.start <= offset:
            if offset < bounds.sealed_end:
                return _Files(bounds, None, Found(now, _SEALED))
            return _Files(bounds, None, Found(now, _TAIL)) if offset < bounds.end else None
        cold = self._place.cold(self._partition)
        if cold is None or offset >= cold.committed:
            raise self._gone(offset, bounds.start)
        if offset < cold.complete:
            raise self._gone(offset, _earliest(bounds, cold))
        return _Files(bounds, cold, Found(now, _origin(cold)))

    def _begin(self, offset: int, files: _Files) -> None:
        self._found = files.found
        bounds = files.bounds
        if files.cold is not None:
            self._pieces = self._from_table(offset, bounds, files.cold)
            return
        end = self._reader.reach(offset, MOST_SEGMENTS) if offset < bounds.sealed_end else bounds.end
        self._pieces = self._from_log(offset, end)

    def _from_log(self, offset: int, end: int) -> Iterator[Records]:
        for run in self._reader.read(offset, end, columns=MESSAGE.names, piece_bytes=PIECE_BYTES):
            yield Records(self._partition, run.offset, run.batch, run.epoch)

    def _from_table(self, offset: int, bounds: Bounds, cold: Cold) -> Iterator[Records]:
        end = min(cold.committed, bounds.start)
        at = offset
        while at < end:
            try:
                for first, batch in TableRuns(cold.table, self._partition, OffsetRange(at, end)):
                    epoch = bounds.epochs.at(first) if bounds.epochs else ""
                    yield Records(self._partition, first, batch, epoch)
                    at = first + len(batch)
            except Hole as hole:
                following = first_from(cold.table, self._partition, OffsetRange(hole.next, end))
                raise self._gone(at, following if following < cold.committed else bounds.start) from None

    def _gone(self, offset: int, first_left: int) -> OffsetGone:
        return OffsetGone(
            first_left,
            f"{self._where}: the messages from offset {offset} on are gone: neither the log nor the table has them. "
            f"The first that are left begin at offset {first_left}; go on from there.",
        )


def _earliest(bounds: Bounds, cold: Cold | None) -> int:
    """Where messages begin that may all be there."""
    if cold is None:
        return bounds.start
    in_log = bounds.end > bounds.start
    return min(bounds.start, cold.complete) if in_log else min(cold.complete, bounds.end)


def _origin(cold: Cold) -> Origin:
    snapshot = cold.table.metadata.current_snapshot_id
    return Origin(True, (-1 if snapshot is None else snapshot, cold.complete))
