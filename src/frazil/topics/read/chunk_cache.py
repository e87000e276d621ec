"""Keeps messages that were read from files for a few seconds, for other readers at the same offsets."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from typing import NamedTuple

from frazil.topics.messages import MessageRun

CHUNK_BYTES = 1024 * 1024
"""A chunk of this size is read from a file at a time."""

Partition = tuple[str, int, int]
"""These are a topic, its generation, and a partition."""


class FileSet(NamedTuple):
    """Identifies the files that have a reader's messages. Readers of the same files share what was read."""

    permanent: bool
    """The files do not change: they are segments, or belong to a table."""
    snapshot: tuple[int, int] | None = None
    """These are the table's snapshot and the offset from which on it is complete. It is None for the log."""


class FileLookup(NamedTuple):
    """Says when files were looked up, and which they are."""

    at: float
    files: FileSet


@dataclass
class ReaderView:
    """Decides what a reader may see: nothing from files that were looked up before it began and were replaced
    since."""

    lookup: FileLookup

    def accepts(self, lookup: FileLookup) -> bool:
        return lookup.at >= self.lookup.at or lookup.files == self.lookup.files


class CachedChunk(NamedTuple):
    records: MessageRun
    lookup: FileLookup
    nbytes: int
    read_at: float


class ChunkCache:
    """Keeps the chunks used last, up to `limit` bytes and at least one. Belongs to the event loop."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._chunks: OrderedDict[tuple[Partition, int], CachedChunk] = OrderedDict()
        self._firsts: defaultdict[Partition, list[int]] = defaultdict(list)
        """These are the first offsets of a partition's chunks, in order."""
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._chunks)

    def find(self, partition: Partition, offset: int, view: ReaderView) -> MessageRun | None:
        """Returns the messages from `offset` to the end of a chunk, if the reader may see them."""
        firsts = self._firsts.get(partition, [])
        place = bisect_right(firsts, offset) - 1
        if place < 0:
            return None
        key = (partition, firsts[place])
        chunk = self._chunks[key]
        if offset >= chunk.records.end or not view.accepts(chunk.lookup):
            return None
        self._chunks.move_to_end(key)
        return from_offset(chunk.records, offset)

    def add(self, partition: Partition, records: MessageRun, lookup: FileLookup, now: float) -> None:
        key = (partition, records.first)
        if key in self._chunks:
            self._remove(key)
        size = int(records.batch.get_total_buffer_size())
        self._chunks[key] = CachedChunk(records, lookup, size, now)
        insort(self._firsts[partition], records.first)
        self.nbytes += size
        while self.nbytes > self._limit and len(self._chunks) > 1:
            self._remove(next(iter(self._chunks)))

    def forget(self, read_before: float) -> None:
        """Drops chunks that were read before a time, however often they are used, because files may have been deleted
        since."""
        for key in [key for key, chunk in self._chunks.items() if chunk.read_at < read_before]:
            self._remove(key)

    def _remove(self, key: tuple[Partition, int]) -> None:
        self.nbytes -= self._chunks.pop(key).nbytes
        partition, first = key
        firsts = self._firsts[partition]
        firsts.remove(first)
        if not firsts:
            del self._firsts[partition]


def from_offset(records: MessageRun, offset: int) -> MessageRun:
    """Returns the messages from an offset on."""
    return records._replace(first=offset, batch=records.batch.slice(offset - records.first))
