"""Buffers the newest records of all topics, within one memory limit for all of them.

Sealed records leave when room is needed, the oldest first, or when they expire. Unsealed records always stay.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from frazil.config.model import Config
from frazil.config.sections.section import MIB
from frazil.formats import kafka
from frazil.hot import blocks, key_index
from frazil.hot.blocks import Block
from frazil.hot.key_index import IndexRun
from frazil.hot.keys import as_bytes, key_column
from frazil.hot.partition_contents import PartitionContents

ROOM = 1 / 64
"""A full buffer frees at least this share of its size, so that not every batch has to make room."""
_JOINED_TTL = 8
"""Records of one block were appended within this fraction of the time to live."""


class LocalSource(Protocol):
    """Feeds a partition from within this process."""

    def lost(self) -> bool:
        """Returns whether its unsealed records are not part of the log any more."""


@dataclass
class BufferStats:
    """Counts what happened to one topic since the start."""

    hits: int = 0
    misses: int = 0
    evicted: int = 0
    """These records made room for others."""
    expired: int = 0
    """These records were older than the time to live."""
    dropped: int = 0
    """These records turned out not to be part of the log."""


class BufferedPartition:
    """Has the contents of one partition. They are changed under the lock, and read without it."""

    def __init__(self, topic: str, partition: int, stats: BufferStats) -> None:
        self.topic = topic
        self.partition = partition
        self.stats = stats
        self.lock = threading.Lock()
        self.contents = PartitionContents()
        self.source: LocalSource | None = None
        """It is None while another process writes the partition, or nobody does."""
        self.epoch: str | None = None
        """This is the epoch of the newest record. It is None while it is unknown where the partition ends."""

    def visible(self) -> PartitionContents:
        """Returns what may be read now. Unsealed records vanish as soon as their writer has lost the partition."""
        source = self.source
        contents = self.contents
        return contents.truncated(contents.sealed) if source is not None and source.lost() else contents


class Buffer:
    """Is safe to use from several threads."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.max_bytes = config.buffer.max_size_mb * MIB
        self.ttl_ms = round(config.buffer.ttl_seconds * 1000)
        self._lock = threading.Lock()
        self._topics: dict[str, dict[int, BufferedPartition]] = {}
        self._stats: dict[str, BufferStats] = {}
        self._nbytes = 0

    # --- what there is -------------------------------------------------------------------------------------

    def topic(self, topic: str) -> Mapping[int, BufferedPartition]:
        """Returns the partitions of a topic. The mapping never changes."""
        return self._topics.get(topic, {})

    @property
    def topics(self) -> Mapping[str, Mapping[int, BufferedPartition]]:
        return self._topics

    def all(self) -> Iterator[BufferedPartition]:
        for partitions in self._topics.values():
            yield from partitions.values()

    def stats(self, topic: str) -> BufferStats:
        return self._stats.get(topic, BufferStats())

    @property
    def nbytes(self) -> int:
        """Returns the size of the records and of the index of all topics."""
        return self._nbytes

    @property
    def unsealed_bytes(self) -> int:
        """Returns the size of the records that must stay, because no segment has them yet."""
        return sum(buffered.contents.unsealed_bytes for buffered in self.all())

    @property
    def is_full(self) -> bool:
        """Returns whether there is no room, and none can be made before more is sealed."""
        return self._nbytes > self.max_bytes

    def key_column(self, topic: str, schema: pa.Schema) -> str | None:
        return key_column(schema, self._key_setting(topic))

    def _key_setting(self, topic: str) -> str | None:
        return self._config.topic(topic).key_column

    # --- changing it ---------------------------------------------------------------------------------------

    def get_or_create(self, topic: str, partition: int) -> BufferedPartition:
        """Returns the partition, and creates it if it does not exist."""
        found = self._topics.get(topic, {}).get(partition)
        if found is not None:
            return found
        with self._lock:
            partitions = self._topics.get(topic, {})
            if partition not in partitions:
                buffered = BufferedPartition(topic, partition, self._stats.setdefault(topic, BufferStats()))
                # Other threads read these without a lock, so they are replaced and never changed.
                self._topics = {**self._topics, topic: {**partitions, partition: buffered}}
            return self._topics[topic][partition]

    def forget(self, buffered: BufferedPartition) -> None:
        """Drops everything of a partition."""
        with buffered.lock:
            self._swap(buffered, PartitionContents())
            buffered.epoch = None
        with self._lock:
            partitions = {n: each for n, each in self._topics.get(buffered.topic, {}).items() if each is not buffered}
            topics = {**self._topics, buffered.topic: partitions}
            self._topics = {name: each for name, each in topics.items() if each}

    def append(
        self,
        buffered: BufferedPartition,
        offset: int,
        batch: pa.RecordBatch,
        time_ms: int,
        *,
        nbytes: int | None = None,
        borrowed: bool = False,
        by: LocalSource | None = None,
    ) -> bool:
        """Adds records. Returns False when they do not begin where the others end, or another source feeds the
        partition."""
        block = blocks.make(offset, batch, time_ms, nbytes=nbytes, borrowed=borrowed)
        run = self._index(buffered.topic, block)
        with buffered.lock:
            if buffered.contents.end != offset or buffered.source is not by:
                return False
            self._swap(buffered, buffered.contents.appended(block, run))
        self._make_room()
        return True

    def prepend(self, buffered: BufferedPartition, offset: int, batch: pa.RecordBatch, time_ms: int) -> bool:
        """Adds sealed records before the others. Returns False when they do not end where those begin."""
        block = blocks.make(offset, batch, time_ms, borrowed=False)
        run = self._index(buffered.topic, block)
        with buffered.lock:
            if buffered.contents.start != block.end:
                return False
            self._swap(buffered, buffered.contents.prepended(block, run))
        self._make_room()
        return True

    def _index(self, topic: str, block: Block) -> IndexRun | None:
        """Returns the index of a block, or None for topics without keys."""
        schema = block.batch.schema
        if self._key_setting(topic) is None and not kafka.is_kafka(schema):
            return None
        column = self.key_column(topic, schema)
        keys = as_bytes(block.batch.column(column)) if column else pa.nulls(block.batch.num_rows, pa.binary())
        return key_index.build(block.offset, keys)

    def seal(self, buffered: BufferedPartition, sealed: int) -> None:
        with buffered.lock:
            self._swap(buffered, buffered.contents.sealed_to(sealed))
        self._make_room()

    def drop_sealed(self, buffered: BufferedPartition) -> None:
        """Drops all sealed records of a partition."""
        self._drop(buffered, len(buffered.contents.blocks))

    def truncate(self, buffered: BufferedPartition, end: int) -> None:
        """Drops the records at `end` and after it, which are not part of the log any more."""
        with buffered.lock:
            before = buffered.contents
            self._swap(buffered, before.truncated(end))
            buffered.stats.dropped += before.end - buffered.contents.end

    def restart(self, buffered: BufferedPartition, offset: int, *, by: LocalSource | None = None) -> bool:
        """Drops everything, and continues from `offset`. Returns False when another source feeds the partition."""
        with buffered.lock:
            if buffered.source is not by:
                return False
            self._swap(buffered, PartitionContents(offset, offset))
            return True

    def set_epoch(self, buffered: BufferedPartition, epoch: str | None, *, by: LocalSource | None = None) -> None:
        """Sets the epoch of the newest record. None means that the end of the partition must be found anew."""
        with buffered.lock:
            if buffered.source is by:
                buffered.epoch = epoch

    def set_source(self, buffered: BufferedPartition, by: LocalSource | None) -> None:
        """Makes `by` the only source of the partition."""
        with buffered.lock:
            buffered.source = by

    def _swap(self, buffered: BufferedPartition, contents: PartitionContents) -> None:
        before, buffered.contents = buffered.contents, contents
        change = contents.nbytes + contents.index_bytes - before.nbytes - before.index_bytes
        with self._lock:
            self._nbytes += change

    # --- keeping it small ----------------------------------------------------------------------------------

    def _make_room(self) -> None:
        if self._nbytes <= self.max_bytes:
            return
        excess = self._nbytes - round(self.max_bytes * (1 - ROOM))
        for buffered, count in self._oldest(excess).items():
            buffered.stats.evicted += self._drop(buffered, count)

    def _oldest(self, wanted: int) -> dict[BufferedPartition, int]:
        """Returns how many of the oldest blocks of each partition have this many bytes together."""
        queue: list[tuple[int, int, BufferedPartition, int]] = []
        evictable = {buffered: buffered.contents.evictable() for buffered in self.all()}
        for order, (buffered, found) in enumerate(evictable.items()):
            if found:
                queue.append((found[0].time_ms, order, buffered, 0))
        heapq.heapify(queue)
        taken: dict[BufferedPartition, int] = {}
        while queue and wanted > 0:
            _, order, buffered, at = queue[0]
            found = evictable[buffered]
            wanted -= found[at].nbytes
            taken[buffered] = at + 1
            if at + 1 < len(found):
                heapq.heapreplace(queue, (found[at + 1].time_ms, order, buffered, at + 1))
            else:
                heapq.heappop(queue)
        return taken

    def _drop(self, buffered: BufferedPartition, count: int) -> int:
        """Drops the oldest blocks as far as they are sealed, and returns how many records that were."""
        with buffered.lock:
            before = buffered.contents
            self._swap(buffered, before.without_first(min(count, len(before.evictable()))))
            return before.rows - buffered.contents.rows

    def expire(self, now_ms: int) -> None:
        """Drops records that are older than the time to live."""
        for buffered in self.all():
            count = 0
            for block in buffered.contents.evictable():
                if block.time_ms > now_ms - self.ttl_ms:
                    break
                count += 1
            if count:
                buffered.stats.expired += self._drop(buffered, count)

    def compact(self, buffered: BufferedPartition) -> bool:
        """Joins some small blocks, and copies records out of WAL files that could go. Returns False if there is
        nothing to do."""
        with buffered.lock:
            contents = buffered.contents
            where = blocks.joinable(contents.blocks, contents.sealed, self.ttl_ms // _JOINED_TTL)
            if where is None:
                return False
            self._swap(buffered, contents.joined(where))
            return True
