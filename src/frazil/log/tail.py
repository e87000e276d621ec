"""The tail of a partition: its newest records, which are in memory until they are sealed."""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterable
from itertools import groupby
from typing import NamedTuple

from frazil.log.epochs import Epochs
from frazil.log.raw.rows import with_rows
from frazil.log.signal import Signal
from frazil.log.wal.entries import Entry

RAW_RUN_BYTES = 8 * 1024 * 1024
"""Raw entries whose rows would be at least this large become a segment of their own, and are not decoded for it."""


class TailView(NamedTuple):
    """The tail at one moment. Records below `start` are in segments."""

    start: int
    end: int
    entries: list[Entry]
    epochs: Epochs
    writers: frozenset[str]
    """The ids under which the writer of this tail has put segments."""


class Tail:
    """The unsealed entries. Thread-safe. `changed` fires when more can be read, `freed` when there is more room."""

    def __init__(self, start: int, epochs: Epochs, entries: list[Entry], writers: Iterable[str]) -> None:
        self.changed = Signal()
        self.freed = Signal()
        self.epochs = epochs
        self.writers = frozenset(writers)
        self._lock = threading.Lock()
        self._making = threading.Lock()
        """It is held while raw entries are decoded, so that only one thread does it."""
        self._start = start
        self._entries = entries
        self._end = entries[-1].end if entries else start
        self.nbytes = sum(entry.nbytes for entry in entries)
        self.raw_bytes = _raw_bytes(entries)
        """The size of the entries that are not decoded yet."""

    @property
    def start(self) -> int:
        return self._start

    @property
    def end(self) -> int:
        return self._end

    @property
    def oldest_ms(self) -> int | None:
        entries = self._entries
        return entries[0].time_ms if entries else None

    def add(self, entry: Entry) -> None:
        with self._lock:
            self._entries.append(entry)
            self.nbytes += entry.nbytes
            self.raw_bytes += entry.nbytes if entry.is_raw else 0
            self._end = entry.end
        self.changed.notify()

    def make_rows(self) -> None:
        """Decode the raw entries that are not decoded yet."""
        if not self.raw_bytes:
            return
        with self._making:
            with self._lock:
                raw = [entry for entry in self._entries if entry.is_raw]
            made = dict(zip(map(id, raw), with_rows(raw), strict=True))
            with self._lock:
                # Entries are compared by identity, not by offset: after a reset others may have the same offsets.
                self._entries = [made.get(id(entry), entry) for entry in self._entries]
                self.raw_bytes = _raw_bytes(self._entries)

    def view(self, start: int = 0) -> TailView:
        """Return the entries that hold records from `start` on, decoded."""
        self.make_rows()
        with self._lock:
            at = max(0, bisect_right(self._entries, start, key=_offset) - 1)
            return TailView(self._start, self._end, self._entries[at:], self.epochs, self.writers)

    def promised(self) -> int:
        return self._end

    def first(self, max_rows: int, max_bytes: int) -> list[Entry]:
        """Return the oldest entries, at least one, as many as fit in one segment.

        Many raw entries become a segment of their own, so that they need not be decoded to be sealed.
        """
        taken: list[Entry] = []
        for form, run in groupby(self._fitting(max_rows, max_bytes), _form):
            entries = list(run)
            alone = form and sum(entry.nbytes for entry in entries) >= RAW_RUN_BYTES
            if alone and taken:
                break
            taken += entries
            if alone:
                break
        return taken

    def _fitting(self, max_rows: int, max_bytes: int) -> list[Entry]:
        """Return the oldest entries up to the limits of a segment, and at least one."""
        taken: list[Entry] = []
        rows = nbytes = 0
        with self._lock:
            for entry in self._entries:
                if taken and (rows + entry.rows > max_rows or nbytes + entry.nbytes > max_bytes):
                    break
                taken.append(entry)
                rows += entry.rows
                nbytes += entry.nbytes
        return taken

    def chain_at(self, offset: int) -> int | None:
        """Return the chain after the entry that ends at `offset`, if one does."""
        with self._lock:
            return next((entry.chain for entry in self._entries if entry.end == offset), None)

    def seal(self, end: int) -> None:
        """Drop the entries that are sealed."""
        with self._lock:
            count = next((i for i, entry in enumerate(self._entries) if entry.end > end), len(self._entries))
            self.nbytes -= sum(entry.nbytes for entry in self._entries[:count])
            self.raw_bytes -= _raw_bytes(self._entries[:count])
            del self._entries[:count]
            self._start = end
        self.freed.notify()
        self.changed.notify()

    def reset(self, start: int, epochs: Epochs, writer: str) -> None:
        """Drop all entries and go on from `start`."""
        with self._lock:
            self._entries = []
            self._start = self._end = start
            self.nbytes = self.raw_bytes = 0
            self.epochs = epochs
            self.writers = frozenset((writer,))
        self.freed.notify()
        self.changed.notify()

    def wait(self, offset: int, timeout: float) -> bool:
        """Block until there is a record at `offset`. Return False when the timeout came first."""
        return self.changed.wait(lambda: self._end > offset, timeout)

    async def wait_async(self, offset: int, timeout: float) -> bool:
        return await self.changed.wait_async(lambda: self._end > offset, timeout)


def _offset(entry: Entry) -> int:
    return entry.offset


def _form(entry: Entry) -> tuple[str, int] | None:
    """Return what entries must share to be decoded together; None for entries that hold rows."""
    return (entry.form, entry.schema_version) if entry.form else None


def _raw_bytes(entries: Iterable[Entry]) -> int:
    return sum(entry.nbytes for entry in entries if entry.is_raw)


class SealedTail:
    """The tail for readers that must not see provisional records: it is empty, and wakes them when more is sealed."""

    def __init__(self, tail: Tail) -> None:
        self._tail = tail

    def view(self, start: int = 0) -> TailView | None:
        return None

    def promised(self) -> int:
        return 0

    def wait(self, offset: int, timeout: float) -> bool:
        return self._tail.changed.wait(lambda: self._tail.start > offset, timeout)

    async def wait_async(self, offset: int, timeout: float) -> bool:
        return await self._tail.changed.wait_async(lambda: self._tail.start > offset, timeout)
