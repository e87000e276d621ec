"""Messages that were read from files, kept for a few seconds for others who read the same place."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from typing import NamedTuple

from frazil.topics.messages import MessageRun

CHUNK_BYTES = 1024 * 1024
"""How much of a file is read at a time."""

Partition = tuple[str, int, int]
"""A topic, the number of its creation, and a partition."""


class FileSet(NamedTuple):
    """Which files a reader finds its messages in. Readers that find the same files share what was read of them."""

    permanent: bool
    """The files stay what they are: they are segments, or belong to a table."""
    snapshot: tuple[int, int] | None = None
    """The table's snapshot and the offset from which on it is complete; None for the log."""


class FileLookup(NamedTuple):
    """When files were looked for, and which they are."""

    at: float
    files: FileSet


@dataclass
class ReaderView:
    """What a reader may be shown: nothing of files that others found before it began and that were replaced since."""

    lookup: FileLookup

    def accepts(self, lookup: FileLookup) -> bool:
        return lookup.at >= self.lookup.at or lookup.files == self.lookup.files


class CachedChunk(NamedTuple):
    records: MessageRun
    lookup: FileLookup
    nbytes: int
    read_at: float


class ChunkCache:
    """Holds the pieces that were used last, up to `limit` bytes, and at least one. Belongs to the event loop."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._chunks: OrderedDict[tuple[Partition, int], CachedChunk] = OrderedDict()
        self._firsts: defaultdict[Partition, list[int]] = defaultdict(list)
        """Where the pieces of a partition begin, in order."""
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._chunks)

    def find(self, partition: Partition, offset: int, view: ReaderView) -> MessageRun | None:
        """The messages from `offset` on, as far as a piece goes, if a reader may be shown them."""
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
        """Let go of what was read before a time, however much it is used: files may have been deleted since then."""
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
    """The part of them from an offset on."""
    return records._replace(first=offset, batch=records.batch.slice(offset - records.first))
