"""What the buffer reads from the log itself: partitions that other processes write, and older records at the start.

One thread does it all, because all of it waits for disk or store. Partitions in which nothing happens are looked at
more and more rarely: every look at an object store costs a request.
"""

from __future__ import annotations

import logging
import sys
import threading
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import pyarrow as pa

from frazil.errors import EpochChanged, FrazilError, OffsetOutOfRange, SegmentsGone
from frazil.hot.blocks import JOINED_BYTES, packed
from frazil.hot.buffer import Buffer, Kept
from frazil.log.log import Log
from frazil.log.reader import PartitionReader
from frazil.log.segments.index import SegmentIndex
from frazil.log.segments.segment import Segment, read_records

logger = logging.getLogger(__name__)

LOOK_SECONDS = (0.5, 5.0)
"""How long to wait for more of a partition: at first, and at most, when nothing came for a while."""
LOOKS_PER_SECOND = 4
"""At partitions in which nothing happens, all together."""
DISCOVER_SECONDS = 5.0
"""How often new topics and partitions are looked for."""
FILLED = 0.75
"""Part of the buffer that is filled with old records; the rest is for new ones."""


@dataclass
class _Followed:
    kept: Kept
    reader: PartitionReader
    due: float = 0.0
    pause: float = LOOK_SECONDS[0]

    @property
    def where(self) -> str:
        return f"{self.kept.topic}/{self.kept.partition}"


class Follower:
    def __init__(self, log: Log, buffer: Buffer) -> None:
        self._log = log
        self._buffer = buffer
        self._clock = log.world.clock
        self._followed: dict[tuple[str, int], _Followed] = {}
        self._to_fill: deque[Kept] = deque()
        self._fill_at = 0.0
        self._discover_at = 0.0
        self._problems: dict[str, FrazilError] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="frazil-hot-follow", daemon=True)

    def start(self) -> None:
        self._discover_at = self._clock.monotonic()
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()

    def fill(self, kept: Kept) -> None:
        """Read what is before the held records, in the background, as far as there is room for it."""
        # Also one that is being filled: it may begin elsewhere now, which ends what was begun before.
        self._to_fill.append(kept)

    @property
    def filling(self) -> bool:
        """Whether older records are still being read."""
        return bool(self._to_fill)

    def problems(self) -> dict[str, FrazilError]:
        return dict(sorted(self._problems.items()))

    def _run(self) -> None:
        while not self._stopping.wait(self._pause()):
            self.step()

    def _pause(self) -> float:
        now = self._clock.monotonic()
        dues = [each.due for each in self._followed.values() if each.kept.source is None]
        filling = [self._fill_at] if self._to_fill else []
        return max(0.0, min([self._discover_at, now + LOOK_SECONDS[0], *dues, *filling]) - now)

    def step(self) -> None:
        """Do what is due: find partitions, look for what is new in them, and read some of what is old."""
        now = self._clock.monotonic()
        if now >= self._discover_at:
            self._attempt("log", self._discover)
            self._discover_at = self._clock.monotonic() + DISCOVER_SECONDS
        for followed in list(self._followed.values()):
            if followed.kept.source is None and followed.due <= now and not self._stopping.is_set():
                self._follow(followed)
        for _ in range(len(self._to_fill)):
            if self._fill_at <= now and not self._stopping.is_set():
                self._fill_next()

    def _attempt(self, where: str, work: Callable[[], bool]) -> bool | None:
        """What `work` says; None when it failed."""
        try:
            result = work()
        except FrazilError as error:
            if str(error) != str(self._problems.get(where)):
                logger.warning("cannot read for the buffer", extra={"where": where, "reason": str(error)})
            self._problems[where] = error
            return None
        self._problems.pop(where, None)
        return result

    def _discover(self) -> bool:
        there = {(topic, partition) for topic in self._log.topics() for partition in self._log.partitions(topic)}
        for topic, partition in there - self._followed.keys():
            kept = self._buffer.keep(topic, partition)
            self._followed[topic, partition] = _Followed(kept, self._log.reader(topic, partition))
        for place in self._followed.keys() - there:
            gone = self._followed.pop(place)
            if gone.kept.source is None:
                self._buffer.forget(gone.kept)
                self._problems.pop(gone.where, None)
        return True

    # --- new records ---------------------------------------------------------------------------------------

    def _follow(self, followed: _Followed) -> None:
        found = self._attempt(followed.where, partial(self._look, followed))
        longest = max(LOOK_SECONDS[1], len(self._followed) / LOOKS_PER_SECOND)
        followed.pause = LOOK_SECONDS[0] if found else min(followed.pause * 1.5, longest)
        followed.due = self._clock.monotonic() + followed.pause

    def _look(self, followed: _Followed) -> bool:
        """Take what is new; whether there was anything."""
        kept = followed.kept
        if kept.epoch is None and not self._begin(followed):
            return False
        before = kept.held.end
        unsealed = _unsealed_from(followed.reader)
        try:
            for records in followed.reader.read_new(before, kept.epoch):
                for offset, batch in _pieces(records.offset, records.batch):
                    if not self._buffer.append(kept, offset, batch, self._clock.now_ms()):
                        return True
                    self._buffer.seal(kept, unsealed)
                self._buffer.place(kept, records.epoch)
        except (EpochChanged, OffsetOutOfRange, SegmentsGone) as error:
            # What is held is no part of the log any more, or too much was missed: begin anew.
            logger.info("a partition begins anew", extra={"where": followed.where, "reason": str(error)})
            self._buffer.place(kept, None)
            return True
        if kept.source is None and kept.held.sealed < min(unsealed, kept.held.end):
            self._buffer.seal(kept, unsealed)
        return kept.held.end > before

    def _begin(self, followed: _Followed) -> bool:
        """Hold nothing but know where the sealed records end; False when there are none yet."""
        bounds = followed.reader.bounds()
        if bounds.epochs is None:
            return False
        self.fill(followed.kept)
        if not self._buffer.restart(followed.kept, bounds.sealed_end):
            return False
        self._buffer.place(followed.kept, bounds.epochs.current)
        return True

    # --- old records ---------------------------------------------------------------------------------------

    def _fill_next(self) -> None:
        kept = self._to_fill[0]
        where = f"{kept.topic}/{kept.partition}"
        filled = self._attempt(where, partial(self._fill_some, kept))
        if filled is None and self._problems[where].retryable:
            self._fill_at = self._clock.monotonic() + LOOK_SECONDS[1]
        elif not filled:
            self._to_fill.popleft()
        self._to_fill.rotate(-1)

    def _fill_some(self, kept: Kept) -> bool:
        """Read the segment before what is held; False when there is none that should be, or no room for all of it."""
        if not self._has_room(0):
            return False
        index = SegmentIndex(self._log.store, kept.topic, kept.partition)
        index.refresh()
        segment = self._before(index, kept.held.start)
        if segment is None:
            return False
        records = read_records(self._log.store, segment).combine_chunks()
        offset = segment.end
        for batch in reversed(records.to_batches()):
            offset -= batch.num_rows
            for at, piece in reversed(list(_pieces(offset, batch))):
                fits = self._has_room(piece.nbytes)
                if not fits or not self._buffer.prepend(kept, at, piece, segment.created_ms):
                    return False
        return True

    def _has_room(self, nbytes: int) -> bool:
        return self._buffer.nbytes + nbytes < self._buffer.max_bytes * FILLED

    def _before(self, index: SegmentIndex, start: int) -> Segment | None:
        firsts = index.firsts
        at = bisect_left(firsts, start) - 1
        if at < 0:
            return None
        segment = index.footer(firsts[at])
        too_old = segment.created_ms <= self._clock.now_ms() - self._buffer.ttl_ms
        return None if too_old or segment.end != start else segment


def _unsealed_from(reader: PartitionReader) -> int:
    """The offset below which all records are in segments."""
    view = tail.view() if (tail := reader.tail) else None
    return view.start if view else sys.maxsize


def _pieces(offset: int, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """A large batch in pieces, each with memory of its own that is free when the piece goes."""
    rows = max(1, batch.num_rows * JOINED_BYTES // max(1, batch.nbytes))
    for at in range(0, batch.num_rows, rows):
        yield offset + at, packed(batch.slice(at, rows))
