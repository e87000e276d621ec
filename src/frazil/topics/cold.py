"""Reading a partition where its messages are not in memory: segments of the log, else the table.

What is read next is decided by the offset alone. When files vanish under a reader, by trimming, compaction or expiry,
it looks again where its offset is now.
"""

from __future__ import annotations

from collections.abc import Iterator

from frazil.errors import OffsetGone, OffsetOutOfRange, SegmentMissing, SegmentsGone, StorageError
from frazil.lake.rows.cut import Span
from frazil.log.reader import Bounds
from frazil.log.segments import PIECE_BYTES
from frazil.topics.cutting import head
from frazil.topics.messages import MESSAGE, Records
from frazil.topics.place import Cold, TopicPlace
from frazil.topics.tableruns import Hole, TableRuns, first_from

TRIES = 5
MOST_SEGMENTS = 8
"""Segments that are looked up at a time: each costs a request before anything of it is read."""


class ColdReader:
    """Of one reader, which asks one thing at a time, from any thread."""

    def __init__(self, place: TopicPlace, partition: int) -> None:
        self._place = place
        self._where = place.where(partition)
        self._partition = partition
        self._reader = place.reader(partition)
        self._pieces: Iterator[Records] | None = None
        self._next = 0
        """The offset of the piece that comes next."""
        self._left: Records | None = None
        """What was read and not asked for yet."""

    def read(self, offset: int, epoch: str | None, max_rows: int, max_bytes: int) -> Records | None:
        """The messages at an offset; None when there are none yet."""
        for _ in range(TRIES):
            try:
                found = self._at(offset, epoch)
            except (SegmentsGone, SegmentMissing, StorageError) as error:
                self.forget()
                if error.retryable:
                    raise
                problem = error
                continue
            return None if found is None else self._cut(found, max_rows, max_bytes)
        raise problem

    def ready(self, offset: int, max_rows: int, max_bytes: int) -> Records | None:
        """The messages at an offset if they were read ahead; nothing blocks."""
        found = self._ahead(offset)
        return None if found is None else self._cut(found, max_rows, max_bytes)

    def _cut(self, found: Records, max_rows: int, max_bytes: int) -> Records:
        """As much as was asked for; the rest is for the next time."""
        taken = found._replace(batch=head(found.batch, max_rows, max_bytes))
        rest = found.batch.slice(len(taken.batch))
        self._left = Records(self._partition, taken.end, rest, found.epoch) if len(rest) else None
        return taken

    def _ahead(self, offset: int) -> Records | None:
        left = self._left
        if left is None or not left.first <= offset < left.end:
            return None
        return Records(self._partition, offset, left.batch.slice(offset - left.first), left.epoch)

    def forget(self) -> None:
        """Begin anew with the next read."""
        self._pieces = self._left = None

    def end(self) -> int:
        """Where the partition ends now."""
        return self._reader.bounds().end

    def earliest(self) -> int:
        """The first offset from which on all messages are there."""
        for _ in range(TRIES):
            bounds, cold = self._look()
            first = _earliest(bounds, cold)
            if cold is None or first >= min(bounds.start, cold.committed):
                return first
            try:
                self._begin_table(first, bounds, cold)
                self._left = self._piece()
                return first
            except OffsetGone as gone:
                self.forget()
                return gone.first_left
            except StorageError as error:
                self.forget()
                if error.retryable:
                    raise
                problem = error
        raise problem

    def _look(self) -> tuple[Bounds, Cold | None]:
        """The log first: what is trimmed from it is in the table."""
        bounds = self._reader.bounds()
        return bounds, self._place.cold(self._partition)

    def _at(self, offset: int, epoch: str | None) -> Records | None:
        if (ahead := self._ahead(offset)) is not None:
            return ahead
        self._left = None
        if self._pieces is not None and self._next == offset:
            if (piece := self._piece()) is not None:
                return piece
            self._pieces = None
        return self._piece() if self._begin(offset, epoch) else None

    def _piece(self) -> Records | None:
        assert self._pieces is not None
        piece = next(self._pieces, None)
        if piece is not None:
            self._next = piece.end
        return piece

    def _begin(self, offset: int, epoch: str | None) -> bool:
        """Find where an offset is; False when nothing is there yet."""
        bounds = self._reader.bounds()
        if epoch is not None and bounds.epochs is not None:
            bounds.epochs.check(epoch, offset, self._where)
        if offset > bounds.end:
            raise OffsetOutOfRange(f"{self._where}: asked for offset {offset}, but the topic ends at {bounds.end}.")
        if bounds.start <= offset:
            end = self._reader.reach(offset, MOST_SEGMENTS) if offset < bounds.sealed_end else bounds.end
            if offset < end:
                self._pieces = self._from_log(offset, end)
            return offset < end
        self._begin_table(offset, bounds, self._place.cold(self._partition))
        return True

    def _from_log(self, offset: int, end: int) -> Iterator[Records]:
        for run in self._reader.read(offset, end, columns=MESSAGE.names, piece_bytes=PIECE_BYTES):
            yield Records(self._partition, run.offset, run.batch, run.epoch)

    def _begin_table(self, offset: int, bounds: Bounds, cold: Cold | None) -> None:
        if cold is None or offset >= cold.committed:
            raise self._gone(offset, bounds.start)
        if offset < cold.complete:
            raise self._gone(offset, _earliest(bounds, cold))
        self._pieces = self._from_table(offset, bounds, cold)

    def _from_table(self, offset: int, bounds: Bounds, cold: Cold) -> Iterator[Records]:
        end = min(cold.committed, bounds.start)
        at = offset
        while at < end:
            try:
                for first, batch in TableRuns(cold.table, self._partition, Span(at, end)):
                    epoch = bounds.epochs.at(first) if bounds.epochs else ""
                    yield Records(self._partition, first, batch, epoch)
                    at = first + len(batch)
            except Hole as hole:
                following = first_from(cold.table, self._partition, Span(hole.next, end))
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
