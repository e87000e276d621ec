"""Implements `--once`: a file whose records are in the topic already is not appended again.

Every append carries the hash of its file as producer and its position in the file as sequence. The log remembers both
(`log.sources`), so a load that is run again finds how far an earlier one came, in whichever partition of this node,
and goes on from there.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from frazil.disk.durable import make_folder
from frazil.errors import PartitionLocked, PartitionTaken
from frazil.log import layout
from frazil.log.log import Log
from frazil.log.positions import Feeders, Origin, Producers, Sequence
from frazil.log.segments.index import SegmentIndex
from frazil.log.wal.recovery import wal_files
from frazil.log.wal_follower import WalTail


def origin(digest: str, position: int) -> Origin:
    return Origin(sequence=Sequence(_producer(digest), position))


def _producer(digest: str) -> str:
    return f"load-{digest}"


@contextmanager
def only_load(log: Log, topic: str) -> Iterator[None]:
    """Makes sure that no other such load into the topic runs: they could not know about each other's appends."""
    folder = layout.wal_root(log.config.data_dir)
    make_folder(folder)
    descriptor = os.open(folder / f"{topic}.once.lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PartitionLocked(
                f"Another `frazil load --once` into {topic!r} is running here; wait for it."
            ) from None
        yield
    finally:
        os.close(descriptor)


class EarlierLoads:
    """Knows how far each file was loaded into a topic, by what its partitions remember."""

    def __init__(self, log: Log, topic: str) -> None:
        self._producers = [_producers(log, topic, partition) for partition in log.partitions(topic)]

    def stored_up_to(self, digest: str, newest: Feeders | None) -> int:
        """Returns the lines or rows of the file that are stored, by what was known and what was appended since."""
        known = [*self._producers, newest.producers] if newest else self._producers
        numbers = [number for producers in known for number, _, _ in producers.get(_producer(digest), (0, []))[1]]
        return max(numbers, default=0)


def _producers(log: Log, topic: str, partition: int) -> Producers:
    """Returns the producers that a partition remembers. A WAL that nobody writes is opened, which recovers its
    content."""
    directory = layout.wal_directory(log.config.data_dir, topic, partition)
    if directory.is_dir():
        try:
            writer = log.writer(topic, partition=partition)
        except PartitionTaken:
            if wal_files(directory):
                raise
        except PartitionLocked:
            return _of_another_process(log, topic, partition)
        else:
            found = writer.feeders
            log.release(writer)
            return found.producers
    return _sealed(log, topic, partition).producers


def _sealed(log: Log, topic: str, partition: int) -> Feeders:
    index = SegmentIndex(log.store, topic, partition)
    index.refresh()
    newest = index.newest()
    limits = log.config.log.sources
    return Feeders.from_json(newest.positions, limits) if newest else Feeders(limits)


def _of_another_process(log: Log, topic: str, partition: int) -> Producers:
    view = WalTail(layout.wal_directory(log.config.data_dir, topic, partition)).view()
    feeders = _sealed(log, topic, partition)
    for entry in view.entries if view else []:
        feeders.apply(entry.appends, entry.time_ms)
    return feeders.producers
