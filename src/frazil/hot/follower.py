"""Reads into the buffer what it needs from the log: partitions of other processes, and older records at the start.

One thread does it all, because all of it waits for disk or store. Quiet partitions are polled less and less often,
because every look at an object store costs a request.
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
from frazil.hot.buffer import Buffer, BufferedPartition
from frazil.log.log import Log
from frazil.log.reader import PartitionReader
from frazil.log.segments.index import SegmentIndex
from frazil.log.segments.segment import Segment, read_records

logger = logging.getLogger(__name__)

POLL_SECONDS = (0.5, 5.0)
"""The follower polls a partition after the first pause, and slows down to the second when nothing comes."""
POLLS_PER_SECOND = 4
"""All quiet partitions together are polled this often."""
DISCOVER_SECONDS = 5.0
"""New topics and partitions are discovered this often."""
FILLED = 0.75
"""Old records fill this share of the buffer. The rest is for new ones."""


@dataclass
class _FollowedPartition:
    buffered: BufferedPartition
    reader: PartitionReader
    due: float = 0.0
    pause: float = POLL_SECONDS[0]

    @property
    def where(self) -> str:
        return f"{self.buffered.topic}/{self.buffered.partition}"


class Follower:
    def __init__(self, log: Log, buffer: Buffer) -> None:
        self._log = log
        self._buffer = buffer
        self._clock = log.world.clock
        self._followed: dict[tuple[str, int], _FollowedPartition] = {}
        self._to_fill: deque[BufferedPartition] = deque()
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

    def fill(self, buffered: BufferedPartition) -> None:
        """Reads records before the buffered ones in the background, as far as there is room."""
        # A partition that is being filled is added again, because it may begin elsewhere now. That ends the earlier
        # fill.
        self._to_fill.append(buffered)

    @property
    def filling(self) -> bool:
        """Returns whether older records are still being read."""
        return bool(self._to_fill)

    def problems(self) -> dict[str, FrazilError]:
        return dict(sorted(self._problems.items()))

    def _run(self) -> None:
        while not self._stopping.wait(self._pause()):
            self.step()

    def _pause(self) -> float:
        now = self._clock.monotonic()
        dues = [each.due for each in self._followed.values() if each.buffered.source is None]
        filling = [self._fill_at] if self._to_fill else []
        return max(0.0, min([self._discover_at, now + POLL_SECONDS[0], *dues, *filling]) - now)

    def step(self) -> None:
        """Does what is due: discovers partitions, takes new records, and reads some old ones."""
        now = self._clock.monotonic()
        if now >= self._discover_at:
            self._attempt("log", self._discover)
            self._discover_at = self._clock.monotonic() + DISCOVER_SECONDS
        for followed in list(self._followed.values()):
            if followed.buffered.source is None and followed.due <= now and not self._stopping.is_set():
                self._follow(followed)
        for _ in range(len(self._to_fill)):
            if self._fill_at <= now and not self._stopping.is_set():
                self._fill_next()

    def _attempt(self, where: str, work: Callable[[], bool]) -> bool | None:
        """Returns the result of `work`, or None when it failed."""
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
            buffered = self._buffer.get_or_create(topic, partition)
            self._followed[topic, partition] = _FollowedPartition(buffered, self._log.reader(topic, partition))
        for partition_key in self._followed.keys() - there:
            gone = self._followed.pop(partition_key)
            if gone.buffered.source is None:
                self._buffer.forget(gone.buffered)
                self._problems.pop(gone.where, None)
        return True

    # --- new records ---------------------------------------------------------------------------------------

    def _follow(self, followed: _FollowedPartition) -> None:
        found = self._attempt(followed.where, partial(self._take_new, followed))
        longest = max(POLL_SECONDS[1], len(self._followed) / POLLS_PER_SECOND)
        followed.pause = POLL_SECONDS[0] if found else min(followed.pause * 1.5, longest)
        followed.due = self._clock.monotonic() + followed.pause

    def _take_new(self, followed: _FollowedPartition) -> bool:
        """Takes new records, and returns whether there were any."""
        buffered = followed.buffered
        if buffered.epoch is None and not self._begin(followed):
            return False
        before = buffered.contents.end
        unsealed = _unsealed_from(followed.reader)
        try:
            for records in followed.reader.read_new(before, buffered.epoch):
                for offset, batch in _chunks(records.offset, records.batch):
                    if not self._buffer.append(buffered, offset, batch, self._clock.now_ms()):
                        return True
                    self._buffer.seal(buffered, unsealed)
                self._buffer.set_epoch(buffered, records.epoch)
        except (EpochChanged, OffsetOutOfRange, SegmentsGone) as error:
            # The buffered records are not part of the log any more, or too many were missed, so we begin anew.
            logger.info("a partition begins anew", extra={"where": followed.where, "reason": str(error)})
            self._buffer.set_epoch(buffered, None)
            return True
        if buffered.source is None and buffered.contents.sealed < min(unsealed, buffered.contents.end):
            self._buffer.seal(buffered, unsealed)
        return buffered.contents.end > before

    def _begin(self, followed: _FollowedPartition) -> bool:
        """Drops everything and continues at the end of the sealed records. Returns False when there are none yet."""
        bounds = followed.reader.bounds()
        if bounds.epochs is None:
            return False
        self.fill(followed.buffered)
        if not self._buffer.restart(followed.buffered, bounds.sealed_end):
            return False
        self._buffer.set_epoch(followed.buffered, bounds.epochs.current)
        return True

    # --- old records ---------------------------------------------------------------------------------------

    def _fill_next(self) -> None:
        buffered = self._to_fill[0]
        where = f"{buffered.topic}/{buffered.partition}"
        filled = self._attempt(where, partial(self._fill_some, buffered))
        if filled is None and self._problems[where].retryable:
            self._fill_at = self._clock.monotonic() + POLL_SECONDS[1]
        elif not filled:
            self._to_fill.popleft()
        self._to_fill.rotate(-1)

    def _fill_some(self, buffered: BufferedPartition) -> bool:
        """Reads the segment before the buffered records. Returns False when no segment fits, or there is no room for
        all of it."""
        if not self._has_room(0):
            return False
        index = SegmentIndex(self._log.store, buffered.topic, buffered.partition)
        index.refresh()
        segment = self._before(index, buffered.contents.start)
        if segment is None:
            return False
        records = read_records(self._log.store, segment).combine_chunks()
        offset = segment.end
        for batch in reversed(records.to_batches()):
            offset -= batch.num_rows
            for at, chunk in reversed(list(_chunks(offset, batch))):
                fits = self._has_room(chunk.nbytes)
                if not fits or not self._buffer.prepend(buffered, at, chunk, segment.created_ms):
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
    """Returns the offset below which all records are in segments."""
    view = tail.view() if (tail := reader.tail) else None
    return view.start if view else sys.maxsize


def _chunks(offset: int, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Splits a large batch into chunks with their own memory, which is freed with the chunk."""
    rows = max(1, batch.num_rows * JOINED_BYTES // max(1, batch.nbytes))
    for at in range(0, batch.num_rows, rows):
        yield offset + at, packed(batch.slice(at, rows))
