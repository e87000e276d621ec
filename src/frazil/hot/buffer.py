"""The buffer of all topics: what is held of each partition, within one bound for all of them together.

Sealed records go when room is needed, the oldest first, or when they are old; records that are not sealed never do.
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
from frazil.hot import blocks, runs
from frazil.hot.blocks import Block
from frazil.hot.held import Held
from frazil.hot.keys import as_bytes, key_column
from frazil.hot.runs import Run

ROOM = 1 / 64
"""Part of the buffer that is freed at least when it is full, so that not every batch has to make room."""
_JOINED_TTL = 8
"""Records of one block are at most this part of the time to live apart."""


class Source(Protocol):
    """What feeds a partition from within this process."""

    def lost(self) -> bool:
        """Whether what it has not sealed is no part of the log any more."""


@dataclass
class TopicStats:
    """Counts since the start."""

    hits: int = 0
    misses: int = 0
    evicted: int = 0
    """Records that made room for others."""
    expired: int = 0
    """Records that were too old."""
    dropped: int = 0
    """Records that turned out not to be part of the log."""


class Kept:
    """One partition. It is changed under its lock, and read without."""

    def __init__(self, topic: str, partition: int, stats: TopicStats) -> None:
        self.topic = topic
        self.partition = partition
        self.stats = stats
        self.lock = threading.Lock()
        self.held = Held()
        self.source: Source | None = None
        """None while another process writes the partition, or nobody."""
        self.epoch: str | None = None
        """Of the newest record; None when it is not known yet where the partition ends."""

    def visible(self) -> Held:
        """What may be read now; records of a writer that lost its partition are gone at that moment."""
        source = self.source
        held = self.held
        return held.truncated(held.sealed) if source is not None and source.lost() else held


class Buffer:
    """Thread-safe."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self.max_bytes = config.buffer.max_size_mb * MIB
        self.ttl_ms = round(config.buffer.ttl_seconds * 1000)
        self._lock = threading.Lock()
        self._topics: dict[str, dict[int, Kept]] = {}
        self._stats: dict[str, TopicStats] = {}
        self._nbytes = 0

    # --- what there is -------------------------------------------------------------------------------------

    def topic(self, topic: str) -> Mapping[int, Kept]:
        """The partitions of a topic; the mapping never changes."""
        return self._topics.get(topic, {})

    @property
    def topics(self) -> Mapping[str, Mapping[int, Kept]]:
        return self._topics

    def all(self) -> Iterator[Kept]:
        for partitions in self._topics.values():
            yield from partitions.values()

    def stats(self, topic: str) -> TopicStats:
        return self._stats.get(topic, TopicStats())

    @property
    def nbytes(self) -> int:
        """Records and index of all topics."""
        return self._nbytes

    @property
    def unsealed_bytes(self) -> int:
        """Of records that cannot make room for others, because no segment has them yet."""
        return sum(kept.held.unsealed_bytes for kept in self.all())

    @property
    def is_full(self) -> bool:
        """Whether there is no room, and none can be made before more is sealed."""
        return self._nbytes > self.max_bytes

    def key_column(self, topic: str, schema: pa.Schema) -> str | None:
        return key_column(schema, self._key_setting(topic))

    def _key_setting(self, topic: str) -> str | None:
        return self._config.topic(topic).key_column

    # --- changing it ---------------------------------------------------------------------------------------

    def keep(self, topic: str, partition: int) -> Kept:
        """The partition's place, which is made if there is none."""
        found = self._topics.get(topic, {}).get(partition)
        if found is not None:
            return found
        with self._lock:
            partitions = self._topics.get(topic, {})
            if partition not in partitions:
                kept = Kept(topic, partition, self._stats.setdefault(topic, TopicStats()))
                # Others look at these without a lock: they are replaced, never changed.
                self._topics = {**self._topics, topic: {**partitions, partition: kept}}
            return self._topics[topic][partition]

    def forget(self, kept: Kept) -> None:
        """Hold nothing of a partition any more."""
        with kept.lock:
            self._swap(kept, Held())
            kept.epoch = None
        with self._lock:
            partitions = {n: each for n, each in self._topics.get(kept.topic, {}).items() if each is not kept}
            topics = {**self._topics, kept.topic: partitions}
            self._topics = {name: each for name, each in topics.items() if each}

    def append(
        self,
        kept: Kept,
        offset: int,
        batch: pa.RecordBatch,
        time_ms: int,
        *,
        nbytes: int | None = None,
        borrowed: bool = False,
        by: Source | None = None,
    ) -> bool:
        """Add records; False when they do not begin where the others end, or another feeds the partition."""
        block = blocks.make(offset, batch, time_ms, nbytes=nbytes, borrowed=borrowed)
        run = self._index(kept.topic, block)
        with kept.lock:
            if kept.held.end != offset or kept.source is not by:
                return False
            self._swap(kept, kept.held.appended(block, run))
        self._make_room()
        return True

    def prepend(self, kept: Kept, offset: int, batch: pa.RecordBatch, time_ms: int) -> bool:
        """Add sealed records before the others; False when they do not end where those begin."""
        block = blocks.make(offset, batch, time_ms, borrowed=False)
        run = self._index(kept.topic, block)
        with kept.lock:
            if kept.held.start != block.end:
                return False
            self._swap(kept, kept.held.prepended(block, run))
        self._make_room()
        return True

    def _index(self, topic: str, block: Block) -> Run | None:
        """None for topics without keys."""
        schema = block.batch.schema
        if self._key_setting(topic) is None and not kafka.is_kafka(schema):
            return None
        column = self.key_column(topic, schema)
        keys = as_bytes(block.batch.column(column)) if column else pa.nulls(block.batch.num_rows, pa.binary())
        return runs.build(block.offset, keys)

    def seal(self, kept: Kept, sealed: int) -> None:
        with kept.lock:
            self._swap(kept, kept.held.sealed_to(sealed))
        self._make_room()

    def drop_sealed(self, kept: Kept) -> None:
        """Hold no more of a partition than must be."""
        self._drop(kept, len(kept.held.blocks))

    def truncate(self, kept: Kept, end: int) -> None:
        """Drop what is at `end` and after: it is no part of the log any more."""
        with kept.lock:
            before = kept.held
            self._swap(kept, before.truncated(end))
            kept.stats.dropped += before.end - kept.held.end

    def restart(self, kept: Kept, offset: int, *, by: Source | None = None) -> bool:
        """Hold nothing, and go on from `offset`; False when another feeds the partition."""
        with kept.lock:
            if kept.source is not by:
                return False
            self._swap(kept, Held(offset, offset))
            return True

    def place(self, kept: Kept, epoch: str | None, *, by: Source | None = None) -> None:
        """Note the epoch of the newest record; None when it must be found out anew where the partition ends."""
        with kept.lock:
            if kept.source is by:
                kept.epoch = epoch

    def feed(self, kept: Kept, by: Source | None) -> None:
        """Let nobody else feed the partition from now on."""
        with kept.lock:
            kept.source = by

    def _swap(self, kept: Kept, held: Held) -> None:
        before, kept.held = kept.held, held
        change = held.nbytes + held.index_bytes - before.nbytes - before.index_bytes
        with self._lock:
            self._nbytes += change

    # --- keeping it small ----------------------------------------------------------------------------------

    def _make_room(self) -> None:
        if self._nbytes <= self.max_bytes:
            return
        excess = self._nbytes - round(self.max_bytes * (1 - ROOM))
        for kept, count in self._oldest(excess).items():
            kept.stats.evicted += self._drop(kept, count)

    def _oldest(self, wanted: int) -> dict[Kept, int]:
        """How many blocks of which partitions are the oldest and have so many bytes together."""
        queue: list[tuple[int, int, Kept, int]] = []
        evictable = {kept: kept.held.evictable() for kept in self.all()}
        for order, (kept, found) in enumerate(evictable.items()):
            if found:
                queue.append((found[0].time_ms, order, kept, 0))
        heapq.heapify(queue)
        taken: dict[Kept, int] = {}
        while queue and wanted > 0:
            _, order, kept, at = queue[0]
            found = evictable[kept]
            wanted -= found[at].nbytes
            taken[kept] = at + 1
            if at + 1 < len(found):
                heapq.heapreplace(queue, (found[at + 1].time_ms, order, kept, at + 1))
            else:
                heapq.heappop(queue)
        return taken

    def _drop(self, kept: Kept, count: int) -> int:
        """Drop the oldest blocks, as far as they may go; how many records that were."""
        with kept.lock:
            before = kept.held
            self._swap(kept, before.without_first(min(count, len(before.evictable()))))
            return before.rows - kept.held.rows

    def expire(self, now_ms: int) -> None:
        """Drop what is older than the time to live."""
        for kept in self.all():
            count = 0
            for block in kept.held.evictable():
                if block.time_ms > now_ms - self.ttl_ms:
                    break
                count += 1
            if count:
                kept.stats.expired += self._drop(kept, count)

    def tidy(self, kept: Kept) -> bool:
        """Join some small blocks, and copy what is in WAL files that could go; False when there is nothing to do."""
        with kept.lock:
            held = kept.held
            where = blocks.joinable(held.blocks, held.sealed, self.ttl_ms // _JOINED_TTL)
            if where is None:
                return False
            self._swap(kept, held.joined(where))
            return True
