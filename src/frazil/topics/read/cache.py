"""Messages that were read from files, kept for a few seconds for others who read the same place."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from typing import NamedTuple

from frazil.topics.messages import Records

PIECE_BYTES = 1024 * 1024
"""How much of a file is read at a time."""

Partition = tuple[str, int, int]
"""A topic, the number of its creation, and a partition."""


class Origin(NamedTuple):
    """Which files a reader finds its messages in. Readers that find the same files share what was read of them."""

    lasts: bool
    """The files stay what they are: they are segments, or belong to a table."""
    snapshot: tuple[int, int] | None = None
    """The table's snapshot and the offset from which on it is complete; None for the log."""


class Found(NamedTuple):
    """When files were looked for, and which they are."""

    at: float
    origin: Origin


@dataclass
class View:
    """What a reader may be shown: nothing of files that others found before it began and that were replaced since."""

    found: Found

    def accepts(self, found: Found) -> bool:
        return found.at >= self.found.at or found.origin == self.found.origin


class Piece(NamedTuple):
    records: Records
    found: Found
    nbytes: int
    read_at: float


class PieceCache:
    """Holds the pieces that were used last, up to `limit` bytes, and at least one. Belongs to the event loop."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._pieces: OrderedDict[tuple[Partition, int], Piece] = OrderedDict()
        self._firsts: defaultdict[Partition, list[int]] = defaultdict(list)
        """Where the pieces of a partition begin, in order."""
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._pieces)

    def find(self, partition: Partition, offset: int, view: View) -> Records | None:
        """The messages from `offset` on, as far as a piece goes, if a reader may be shown them."""
        firsts = self._firsts.get(partition, [])
        place = bisect_right(firsts, offset) - 1
        if place < 0:
            return None
        key = (partition, firsts[place])
        piece = self._pieces[key]
        if offset >= piece.records.end or not view.accepts(piece.found):
            return None
        self._pieces.move_to_end(key)
        return since(piece.records, offset)

    def add(self, partition: Partition, records: Records, found: Found, now: float) -> None:
        key = (partition, records.first)
        if key in self._pieces:
            self._remove(key)
        size = int(records.batch.get_total_buffer_size())
        self._pieces[key] = Piece(records, found, size, now)
        insort(self._firsts[partition], records.first)
        self.nbytes += size
        while self.nbytes > self._limit and len(self._pieces) > 1:
            self._remove(next(iter(self._pieces)))

    def forget(self, read_before: float) -> None:
        """Let go of what was read before a time, however much it is used: files may have been deleted since then."""
        for key in [key for key, piece in self._pieces.items() if piece.read_at < read_before]:
            self._remove(key)

    def _remove(self, key: tuple[Partition, int]) -> None:
        self.nbytes -= self._pieces.pop(key).nbytes
        partition, first = key
        firsts = self._firsts[partition]
        firsts.remove(first)
        if not firsts:
            del self._firsts[partition]


def since(records: Records, offset: int) -> Records:
    """The part of them from an offset on."""
    return records._replace(first=offset, batch=records.batch.slice(offset - records.first))
