"""Feeds the buffer from the writers of this process.

One thread polls all writers, and compacts the buffer in between. A lookup first takes over what was appended since,
so that it finds everything that was acknowledged.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa

from frazil.errors import EpochChanged, FrazilError, PartitionTaken
from frazil.hot.blocks import SMALL_BYTES
from frazil.hot.buffer import Buffer, BufferedPartition
from frazil.log.log import Log
from frazil.log.tail import TailView
from frazil.log.wal.entries import Entry
from frazil.log.writer.writer import PartitionWriter

logger = logging.getLogger(__name__)

PAUSE_SECONDS = 0.02
"""The thread pauses this long, so that many small appends become one block and polling does not slow them down."""
HOUSEKEEPING_SECONDS = 0.5
_TIDY_SECONDS = 0.005
"""Housekeeping delays new records by at most this long."""

TopicPartition = tuple[str, int]
"""These are a topic and a partition."""


@dataclass(frozen=True, eq=False)
class FollowedWriter:
    """Remembers a writer of this process as it was when the buffer began to follow its tail."""

    writer: PartitionWriter
    ids: frozenset[str]
    """These are the ids in the writer's segments. A writer that is fenced continues under another id."""

    def lost(self) -> bool:
        return self.writer.tail.writers is not self.ids or isinstance(self.writer.stopped, PartitionTaken)


class Feed:
    """Feeds the buffer. `fill` is called with partitions that begin anew, to have older records read."""

    def __init__(self, log: Log, buffer: Buffer, fill: Callable[[BufferedPartition], None]) -> None:
        self._log = log
        self._buffer = buffer
        self._fill = fill
        self._followed: dict[TopicPartition, tuple[BufferedPartition, FollowedWriter]] = {}
        self._asked: set[TopicPartition] = set()
        """Somebody has looked something up in these partitions."""
        self._wake = threading.Event()
        self._stopping = False
        self._problems: dict[TopicPartition, FrazilError] = {}
        self._polling = threading.Lock()
        self._tidied = 0.0
        self._thread = threading.Thread(target=self._run, name="frazil-hot-feed", daemon=True)

    def start(self) -> None:
        self._tidied = time.monotonic()
        self._log.changed.listen(self._wake.set)
        self._thread.start()

    def stop(self) -> None:
        self._stopping = True
        self._wake.set()
        self._thread.join()
        self._log.changed.ignore(self._wake.set)
        for _, followed in self._followed.values():
            followed.writer.tail.changed.ignore(self._wake.set)

    def problems(self) -> dict[str, FrazilError]:
        return {f"{topic}/{partition}": error for (topic, partition), error in sorted(self._problems.items())}

    def _run(self) -> None:
        self._wake.set()
        while not self._stopping:
            self._wake.wait(HOUSEKEEPING_SECONDS)
            self._wake.clear()
            started = time.monotonic()
            self.poll()
            if started - self._tidied > HOUSEKEEPING_SECONDS:
                self._housekeeping(started)
            time.sleep(max(PAUSE_SECONDS, time.monotonic() - started))

    def poll(self) -> None:
        """Takes new records from all writers, and notices which writers have come and gone."""
        with self._polling:
            writers = {(writer.topic, writer.partition): writer for writer in self._log.writers}
            for partition_key in self._followed.keys() - writers.keys():
                self._attempt(partition_key, None)
            for partition_key, writer in writers.items():
                self._attempt(partition_key, writer)

    def catch_up(self, topic: str) -> None:
        """Takes the new records of one topic now."""
        for writer in self._log.writers:
            if writer.topic != topic:
                continue
            partition_key = (writer.topic, writer.partition)
            known = self._followed.get(partition_key)
            self._asked.add(partition_key)
            if known is None or known[1].writer is not writer or known[0].contents.end != writer.tail.end:
                with self._polling:
                    self._attempt(partition_key, writer)

    def _attempt(self, partition_key: TopicPartition, writer: PartitionWriter | None) -> None:
        """Reports a failure of one partition, so that it does not stop the others."""
        try:
            if writer is None:
                self._release(partition_key)
            else:
                self._take(partition_key, writer)
        except (FrazilError, pa.ArrowException, ValueError) as caught:
            error = caught if isinstance(caught, FrazilError) else FrazilError(f"cannot be held: {caught}")
            if str(error) != str(self._problems.get(partition_key)):
                logger.exception("cannot buffer", extra={"topic": partition_key[0], "partition": partition_key[1]})
            self._problems[partition_key] = error
        else:
            self._problems.pop(partition_key, None)

    # --- one partition -------------------------------------------------------------------------------------

    def _take(self, partition_key: TopicPartition, writer: PartitionWriter) -> None:
        known = self._followed.get(partition_key)
        tail = writer.tail
        # A partition that is unlikely to be looked up is buffered only after somebody has.
        wanted = writer.options.looked_up or partition_key in self._asked
        if known is not None and known[1].writer is writer and not known[1].lost():
            buffered = known[0]
            if not wanted:
                return
            if tail.end == buffered.contents.end and tail.start == buffered.contents.sealed:
                return
            view = tail.view(buffered.contents.end)
            if view.writers is known[1].ids and view.start <= buffered.contents.end:
                self._add(buffered, known[1], view)
                return
        elif known is not None and known[1].writer is not writer:
            self._release(partition_key)
        if isinstance(writer.stopped, PartitionTaken):
            self._release(partition_key)
            return
        if wanted:
            self._begin(partition_key, writer)
        else:
            self._claim(partition_key, FollowedWriter(writer, tail.writers))

    def _claim(self, partition_key: TopicPartition, followed: FollowedWriter) -> BufferedPartition:
        """Makes the writer the only source of the partition."""
        buffered = self._buffer.get_or_create(*partition_key)
        self._buffer.set_source(buffered, followed)
        self._followed[partition_key] = buffered, followed
        return buffered

    def _begin(self, partition_key: TopicPartition, writer: PartitionWriter) -> None:
        """Follows a tail from its start, and joins it with the buffered records if they end there."""
        if partition_key not in self._followed and writer.options.looked_up:
            # Partitions that are unlikely to be looked up are polled by housekeeping only.
            writer.tail.changed.listen(self._wake.set)
        view = writer.tail.view()
        buffered = self._buffer.get_or_create(*partition_key)
        # Only these records are known to be sealed. The others may not have become part of the log.
        self._buffer.truncate(buffered, min(buffered.contents.sealed, view.start))
        followed = FollowedWriter(writer, view.writers)
        self._claim(partition_key, followed)
        self._buffer.truncate(buffered, view.start)
        if buffered.contents.end != view.start or not _same_epoch(buffered, view):
            self._buffer.restart(buffered, view.start, by=followed)
            if writer.options.looked_up:
                self._fill(buffered)
        self._add(buffered, followed, view)

    def _add(self, buffered: BufferedPartition, followed: FollowedWriter, view: TailView) -> None:
        borrowed = followed.writer.options.ack == "local"
        self._buffer.set_epoch(buffered, view.epochs.current, by=followed)
        for entries in _grouped_by_size([entry for entry in view.entries if entry.offset >= buffered.contents.end]):
            batch = _joined(entries)
            alone = len(entries) == 1
            self._buffer.append(
                buffered,
                entries[0].offset,
                batch,
                entries[-1].time_ms,
                nbytes=entries[0].nbytes if alone else None,
                borrowed=borrowed and alone,
                by=followed,
            )
        if view.start != buffered.contents.sealed:
            self._seal(buffered, followed, view.start)

    def _seal(self, buffered: BufferedPartition, followed: FollowedWriter, sealed: int) -> None:
        self._buffer.seal(buffered, sealed)
        if not followed.writer.options.looked_up:
            self._buffer.drop_sealed(buffered)

    def _release(self, partition_key: TopicPartition) -> None:
        """Lets go of a writer that is gone. Records in its WAL stay part of the log, those in memory only do not."""
        found = self._followed.pop(partition_key, None)
        if found is None:
            return
        buffered, followed = found
        followed.writer.tail.changed.ignore(self._wake.set)
        if not followed.lost():
            self._seal(buffered, followed, followed.writer.tail.start)
        if followed.lost() or followed.writer.options.ack == "object":
            self._buffer.truncate(buffered, buffered.contents.sealed)
        self._buffer.set_source(buffered, None)

    # --- order ---------------------------------------------------------------------------------------------

    def _housekeeping(self, now: float) -> None:
        self._buffer.expire(self._log.world.clock.now_ms())
        for buffered in self._buffer.all():
            while self._buffer.compact(buffered):
                if time.monotonic() - now > _TIDY_SECONDS:
                    return
        self._tidied = now


def _same_epoch(buffered: BufferedPartition, view: TailView) -> bool:
    """Returns whether the buffered records are those that the log has before the tail."""
    if buffered.epoch is None:
        return False
    try:
        view.epochs.check(buffered.epoch, buffered.contents.end, buffered.topic)
    except EpochChanged:
        return False
    return True


def _grouped_by_size(entries: list[Entry]) -> list[list[Entry]]:
    """Groups small neighbours of one schema. Larger entries stay alone."""
    groups: list[list[Entry]] = []
    size = 0
    for entry in entries:
        small = entry.nbytes < SMALL_BYTES
        if groups and small and 0 < size < SMALL_BYTES and entry.schema_version == groups[-1][-1].schema_version:
            groups[-1].append(entry)
            size += entry.nbytes
        else:
            groups.append([entry])
            size = entry.nbytes if small else 0
    return groups


def _joined(entries: list[Entry]) -> pa.RecordBatch:
    batches = [entry.batch() for entry in entries]
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
