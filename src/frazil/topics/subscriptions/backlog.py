"""Keeps the backlog of one partition in a subscription: what was read and is not settled yet."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import attrgetter

import numpy as np
import pyarrow as pa

from frazil.topics.read.memory_budget import MemoryAccount
from frazil.topics.subscriptions.entries import NO_BATCH, DeliveryEntry, EntryState, HeldBatch
from frazil.topics.subscriptions.progress import Progress

SPARSE = 4
"""If less than one in this many rows of a batch is still needed, these rows can be copied."""

_START = attrgetter("start")


class PartitionBacklog:
    def __init__(self, partition: int, progress: Progress, account: MemoryAccount, *, restored: bool) -> None:
        self.partition = partition
        self.progress = progress
        self.restored = restored
        """A former process may have delivered messages that this one has not, and consumers may still acknowledge
        them."""
        self.position = progress.mark
        """The next read begins at this offset."""
        self.entries: list[DeliveryEntry] = []
        """They are in the order of their offsets, and none is settled."""
        self.undelivered = 0
        """So many rows were read and never delivered."""
        self.unsettled = 0
        """So many rows were delivered and are not settled."""
        self.held_bytes = 0
        self._account = account
        self._sparse = False
        """There may be batches of which few rows are left."""
        self.paused: list[DeliveryEntry] = []
        """These entries wait until fewer ranges are acknowledged out of order."""

    def allowance(self, entry: DeliveryEntry, max_gaps: int) -> int:
        """Returns how many rows of an entry may be delivered for the first time without too many gaps.

        The message at the mark is always allowed: it makes no gap, and without it no gap would ever close.
        """
        room = max_gaps - self.progress.gap_count - self.unsettled
        return max(room, 1 if entry.start == self.progress.mark else 0)

    def full(self, max_gaps: int) -> bool:
        """Returns whether it is useless to read more."""
        return bool(self.entries) and self.progress.gap_count + self.unsettled >= max_gaps

    def first_at(self, offset: int) -> int:
        """Returns the index of the first entry that ends after an offset."""
        index = bisect_right(self.entries, offset, key=_START)
        return index - 1 if index and self.entries[index - 1].end > offset else index

    def add(self, entry: DeliveryEntry) -> None:
        """Appends an entry that was just read."""
        self.entries.append(entry)
        self.undelivered += entry.rows

    def hold(self, held: HeldBatch) -> None:
        self._count(held.nbytes)

    def _count(self, nbytes: int) -> None:
        self.held_bytes += nbytes
        self._account.add(nbytes)

    def cut(self, entry: DeliveryEntry, at: int) -> DeliveryEntry:
        """Splits off the part of an entry below `at`, as an entry of its own before it."""
        index = self._index(entry)
        part = entry.cut(at)
        self.entries.insert(index, part)
        return part

    def count_delivery(self, entry: DeliveryEntry) -> None:
        if entry.deliveries == 0:
            self.undelivered -= entry.rows
            self.unsettled += entry.rows
        entry.deliveries += 1

    def remove(self, entry: DeliveryEntry) -> None:
        """Drops a whole entry."""
        del self.entries[self._index(entry)]
        held, entry.held = entry.held, NO_BATCH
        entry.state = EntryState.SETTLED
        entry.stamp += 1
        self._release(held, entry.rows, delivered=entry.deliveries > 0)

    def shorten(self, entry: DeliveryEntry, start: int) -> None:
        """Drops the part of an entry below `start`."""
        rows, entry.start = start - entry.start, start
        self._release(entry.held, rows, delivered=entry.deliveries > 0)

    def _index(self, entry: DeliveryEntry) -> int:
        return bisect_left(self.entries, entry.start, key=_START)

    def _release(self, held: HeldBatch, rows: int, *, delivered: bool) -> None:
        if delivered:
            self.unsettled -= rows
        else:
            self.undelivered -= rows
        held.live -= rows
        if held.live == 0:
            self._count(-held.nbytes)
        elif held.live * SPARSE < held.batch.num_rows:
            self._sparse = True

    def thin_out(self) -> None:
        """Copies the remaining rows of sparse batches, so that the others can be freed."""
        if not self._sparse:
            return
        self._sparse = False
        for entry in self.entries:
            held = entry.held
            if held.live * SPARSE < held.batch.num_rows:
                rows = pa.array(np.arange(entry.start - held.first, entry.end - held.first))
                entry.held = HeldBatch(entry.start, held.batch.take(rows), held.epoch, entry.rows)
                self._count(entry.held.nbytes)
                held.live -= entry.rows
                if held.live == 0:
                    self._count(-held.nbytes)
