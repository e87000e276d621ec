"""Says which offsets the log of a topic holds now: its segments, and the tail if its WAL is on this machine."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from frazil.log import layout
from frazil.log.epochs import Epochs
from frazil.log.reader import PartitionReader, TailLook, join_tail, look_at
from frazil.log.segments.index import SegmentIndex
from frazil.log.segments.segment import Segment
from frazil.log.tail import TailView
from frazil.log.topics.schemas import TopicSchemas, list_partitions
from frazil.log.wal.entries import Entry
from frazil.log.wal.recovery import is_wal
from frazil.log.wal_follower import WalTail
from frazil.store import ObjectStore


class SealedSegment(NamedTuple):
    """Describes a segment as the listing shows it, which ends where the next one starts."""

    first: int
    end: int
    bytes: int


@dataclass(frozen=True)
class LogExtent:
    """Says which offsets the log has of one partition."""

    start: int = 0
    sealed_end: int = 0
    end: int = 0
    """The log ends here, including the tail where it can be read."""
    epochs: Epochs | None = None
    segments: tuple[SealedSegment, ...] = ()
    tail: tuple[Entry, ...] | None = None
    """These are unsealed records in memory. It is None where the tail is in a WAL, or cannot be read."""
    wal: tuple[Entry, ...] = ()
    """These are unsealed records in a WAL on this machine, not decoded yet."""
    tail_epochs: Epochs | None = None
    has_tail: bool = False
    """Whether the tail can be read here, so that no record is missing that was acknowledged."""

    @property
    def epoch(self) -> str:
        """Returns the current epoch, which is empty before there is any segment."""
        return self.epochs.current if self.epochs else ""

    def segments_between(self, start: int, end: int) -> Iterator[SealedSegment]:
        """Yields the segments that hold some of these offsets."""
        return (each for each in self.segments if each.first < end and each.end > start)


EMPTY_EXTENT = LogExtent()


Tails = Callable[[str], Mapping[int, TailView]]
"""Returns the tails of a topic, by partition, that writers of this process keep in memory only."""


class LogExtents:
    """Reads the extents of one topic's log. Belongs to one thread.

    It remembers footers of segments and the WAL files that it has read, so that a later call reads only what is new.
    """

    def __init__(self, store: ObjectStore, topic: str, data_dir: Path, tails: Tails | None = None) -> None:
        self._store = store
        self._topic = topic
        self._data_dir = data_dir
        self._tails = tails
        self._indexes: dict[int, SegmentIndex] = {}
        self._wals: dict[int, WalTail] = {}

    def current(self, *, tail: bool, listed: Callable[[], None] = lambda: None) -> dict[int, LogExtent]:
        """Returns the extents of all partitions. With `tail` they include unsealed records.

        `listed` is called when the tails were looked at, before anything in the store is listed.
        """
        # The tails come first: records that are sealed meanwhile are then found in the segments.
        views = self._tails(self._topic) if tail and self._tails is not None else {}
        local = self._local() - views.keys() if tail else set()
        self._wals = {partition: wal for partition, wal in self._wals.items() if partition in local}
        looks = {partition: self._look(partition) for partition in local}
        listed()
        partitions = views.keys() | looks.keys() | set(list_partitions(self._store, self._topic))
        return {each: self._extent(each, looks.get(each), views.get(each)) for each in sorted(partitions)}

    def oldest_ms(self, partition: int, segment: SealedSegment) -> int:
        """Returns when the first record of a segment was appended."""
        return self._indexes[partition].footer(segment.first).oldest_ms

    def forget(self) -> None:
        """Forgets everything, because the log was replaced by another."""
        self._indexes.clear()
        self._wals.clear()

    def _look(self, partition: int) -> TailLook:
        wal = self._wals.get(partition)
        if wal is None or not wal.is_current():
            wal = self._wals[partition] = WalTail(layout.wal_directory(self._data_dir, self._topic, partition))
        return look_at(wal.promised, partial(wal.view, decoded=False))

    def _extent(self, partition: int, look: TailLook | None, view: TailView | None) -> LogExtent:
        index = self._indexes.setdefault(partition, SegmentIndex(self._store, self._topic, partition))
        index.refresh()
        firsts, newest, sealed_end = index.firsts, index.newest(), index.sealed_end()
        wal = None
        if view is None and look is not None:
            wal = join_tail(look, index, f"{self._topic}/{partition}")
        entries = _unsealed(view, newest, sealed_end) if view is not None else None
        unsealed = _behind(wal.entries, sealed_end) if wal is not None else ()
        last = (entries or unsealed)[-1].end if entries or unsealed else sealed_end
        return LogExtent(
            start=firsts[0] if firsts else max(wal.start if wal is not None else 0, index.low),
            sealed_end=sealed_end,
            end=max(sealed_end, last, wal.end if wal is not None else 0),
            epochs=newest.epochs if newest else None,
            segments=tuple(
                SealedSegment(first, last, index.size(first)) for first, last in pairwise([*firsts, sealed_end])
            ),
            tail=entries,
            wal=unsealed,
            tail_epochs=wal.epochs if wal is not None else view.epochs if view is not None else None,
            has_tail=view is not None or look is not None,
        )

    def _local(self) -> set[int]:
        folder = layout.wal_root(self._data_dir) / self._topic
        children = list(folder.iterdir()) if folder.is_dir() else []
        found = {layout.parse_partition(child.name): child for child in children}
        return {partition for partition, child in found.items() if partition is not None and is_wal(child)}


def _unsealed(view: TailView, newest: Segment | None, sealed_end: int) -> tuple[Entry, ...]:
    """Returns the entries after the segments, or none if another writer has continued the partition.

    Records that the tail's own writer has sealed meanwhile are in the segments.
    """
    ours = newest is None or newest.writer in view.writers or newest.end == view.start
    if not ours or view.start > sealed_end:
        return ()
    return _behind(view.entries, sealed_end)


def _behind(entries: Sequence[Entry], offset: int) -> tuple[Entry, ...]:
    """Returns the entries that have records from an offset on."""
    return tuple(entries[bisect_right(entries, offset, key=lambda entry: entry.end) :])


def tail_reader(store: ObjectStore, topic: str, partition: int, data_dir: Path) -> PartitionReader | None:
    """Returns a reader that joins segments with the WAL on this machine, or None if there is no such WAL."""
    directory = layout.wal_directory(data_dir, topic, partition)
    if not is_wal(directory):
        return None
    tail = WalTail(directory)
    return PartitionReader(store, TopicSchemas(store, topic), topic, partition, lambda: tail)
