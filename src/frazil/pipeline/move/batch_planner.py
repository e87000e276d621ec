"""Plans batches: when the next one is due, how far it goes in each partition, and which task moves which range.

Only sealed segments are moved. A segment ends where the next one starts, so the listing of a partition and the footer
of its newest segment are all that has to be read, however long the backlog is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise

from frazil.config.sections.pipeline import PipelineConfig, TopicPipelineConfig
from frazil.config.sections.section import MIB
from frazil.errors import OffsetsAhead, SegmentsGone
from frazil.lake.commit.ranges import Range
from frazil.log.reader import Position
from frazil.log.segments.index import SegmentIndex
from frazil.log.topics.schemas import list_partitions
from frazil.store import ObjectStore

DISCOVERY_SECONDS = 5.0
"""This is how often the planner looks for new partitions."""
SMALLEST_TASK_BYTES = 4 * MIB
"""A task gets at least this many bytes, because another task would cost more than it gains."""


@dataclass(frozen=True)
class FlushLimits:
    """The limits of a batch. It is due when it reaches the first of them."""

    seconds: float
    rows: int
    bytes: int

    @classmethod
    def of(cls, pipeline: PipelineConfig, topic: TopicPipelineConfig) -> FlushLimits:
        return cls(
            topic.flush_interval_seconds or pipeline.flush_interval_seconds,
            topic.flush_batch_size or pipeline.flush_batch_size,
            (topic.max_size_mb or pipeline.max_size_mb) * MIB,
        )


@dataclass(frozen=True)
class SegmentSlice:
    """A segment, or the part of it that is still to be moved."""

    start: int
    end: int
    bytes: int

    @property
    def rows(self) -> int:
        return self.end - self.start


class Backlog:
    """The sealed segments of one partition."""

    def __init__(self, store: ObjectStore, topic: str, partition: int) -> None:
        self._name = f"{topic}/{partition}"
        self._index = SegmentIndex(store, topic, partition)
        self._borders: list[int] = []
        self._end = 0

    def refresh(self, position: Position) -> None:
        """Lists the segments again. Raises if this is not the log that was moved up to the position."""
        self._index.refresh()
        self._end = self._index.sealed_end()
        self._borders = [*self._index.firsts, self._end]
        if position.offset > self._end:
            raise OffsetsAhead(
                f"{self._name}: moved up to offset {position.offset}, but the log ends at {self._end} now. Segments "
                f"are missing, or this is another log."
            )
        newest = self._index.newest()
        if newest is not None and position.epoch and position.offset > 0:
            newest.epochs.check(position.epoch, position.offset, self._name)

    @property
    def end(self) -> int:
        return self._end

    def slices(self, start: int, end: int) -> Iterator[SegmentSlice]:
        """Yields the segments with the offsets `[start, end)`, cut to that range."""
        if start < end and start < self._index.start:
            raise self._index.gone(start)
        for first, last in pairwise(self._borders):
            if last > start and first < end:
                low, high = max(first, start), min(last, end)
                yield SegmentSlice(low, high, self._index.size(first) * (high - low) // max(1, last - first))

    def epoch(self, end: int) -> str:
        newest = self._index.newest()
        if newest is None:
            raise SegmentsGone(f"{self._name}: no segments are left.")
        return newest.epochs.at(end - 1)


class BatchPlanner:
    """Plans the batches of one topic, one after another. Only one thread may use it."""

    def __init__(
        self,
        store: ObjectStore,
        topic: str,
        starts: Mapping[int, Position],
        limits: FlushLimits,
        parallelism: int,
        clock: Callable[[], float],
    ) -> None:
        self._store = store
        self._topic = topic
        self._limits = limits
        self._parallelism = parallelism
        self._clock = clock
        self._positions = dict(starts)
        self.bytes = 0
        """The stored size of all segments that were planned so far."""
        self._backlogs: dict[int, Backlog] = {}
        self._discovered = float("-inf")
        self._waiting_since: float | None = None
        self._last = -1

    @property
    def ends(self) -> dict[int, int]:
        return {partition: position.offset for partition, position in self._positions.items()}

    def next_end(self) -> dict[int, int]:
        """Returns the end offsets of the next batch. They are those of the last batch while none is due."""
        now = self._clock()
        self._refresh(now)
        slices = {
            partition: list(backlog.slices(self._position(partition).offset, backlog.end))
            for partition, backlog in self._backlogs.items()
        }
        rows = sum(segment.rows for run in slices.values() for segment in run)
        size = sum(segment.bytes for run in slices.values() for segment in run)
        if rows == 0:
            self._waiting_since = None
            return self.ends
        self._waiting_since = now if self._waiting_since is None else self._waiting_since
        waited = now - self._waiting_since >= self._limits.seconds
        if waited or rows >= self._limits.rows or size >= self._limits.bytes:
            self._take(slices)
            self._waiting_since = now
        return self.ends

    def _position(self, partition: int) -> Position:
        return self._positions.get(partition, Position("", 0))

    def _refresh(self, now: float) -> None:
        if now - self._discovered >= DISCOVERY_SECONDS:
            for partition in list_partitions(self._store, self._topic):
                self._backlogs.setdefault(partition, Backlog(self._store, self._topic, partition))
            self._discovered = now
        for partition, backlog in self._backlogs.items():
            backlog.refresh(self._position(partition))

    def _take(self, slices: Mapping[int, list[SegmentSlice]]) -> None:
        """Adds a segment of each partition in turn until the batch is full. There is always room for a first one.

        The next batch begins with the partition after the last one, so that no partition waits behind a busy one.
        """
        rows, size = self._limits.rows, self._limits.bytes
        waiting = sorted(partition for partition, run in slices.items() if run)
        order = [p for p in waiting if p > self._last] + [p for p in waiting if p <= self._last]
        queues = {partition: iter(slices[partition]) for partition in order}
        while queues and rows > 0 and size > 0:
            for partition in list(queues):
                segment = next(queues[partition], None)
                if segment is None:
                    del queues[partition]
                elif rows > 0 and size > 0:
                    self._last = partition
                    end = min(segment.end, segment.start + rows)
                    self._positions[partition] = Position(self._backlogs[partition].epoch(end), end)
                    self.bytes += segment.bytes * (end - segment.start) // segment.rows
                    rows -= segment.rows
                    size -= segment.bytes

    def tasks(self, start: Mapping[int, int], end: Mapping[int, int]) -> list[Range]:
        """Splits the batch from `start` to `end` at segment borders into ranges, so that every core has a share."""
        wanted = {p: list(self._backlogs[p].slices(start.get(p, 0), end[p])) for p in sorted(end)}
        total = sum(segment.bytes for run in wanted.values() for segment in run)
        share = max(SMALLEST_TASK_BYTES, total // self._parallelism)
        return [
            Range(partition, low, high, self._backlogs[partition].epoch(high))
            for partition, run in wanted.items()
            for low, high in join_slices(run, share)
        ]


def join_slices(run: list[SegmentSlice], share: int) -> Iterator[tuple[int, int]]:
    """Joins neighbouring slices of segments into ranges of about `share` bytes."""
    start, size = None, 0
    for segment in run:
        if start is not None and size + segment.bytes > share * 1.25:
            yield start, segment.start
            start, size = None, 0
        start = segment.start if start is None else start
        size += segment.bytes
    if start is not None:
        yield start, run[-1].end
