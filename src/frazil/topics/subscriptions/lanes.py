"""One partition as a subscription sees it: all that was read of it and is not settled."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from operator import attrgetter

import numpy as np
import pyarrow as pa

from frazil.topics.read.memory import Account
from frazil.topics.subscriptions.entries import NO_RUN, Entry, Run, State
from frazil.topics.subscriptions.progress import Progress

SPARSE = 4
"""A batch of which less than one in so many rows is still needed can be replaced by those rows."""

_START = attrgetter("start")


class Lane:
    def __init__(self, partition: int, progress: Progress, account: Account, *, restored: bool) -> None:
        self.partition = partition
        self.progress = progress
        self.restored = restored
        """A former process may have delivered what this one has not: its consumers may still acknowledge it."""
        self.position = progress.mark
        """The next offset to be read."""
        self.entries: list[Entry] = []
        """In order, and none is settled."""
        self.fresh = 0
        """Rows that were read and never delivered."""
        self.unsettled = 0
        """Rows that were delivered and are not settled."""
        self.held_bytes = 0
        self._account = account
        self._sparse = False
        """There may be batches of which few rows are left."""
        self.paused: list[Entry] = []
        """What waits until less is acknowledged out of order."""

    def allowance(self, entry: Entry, max_gaps: int) -> int:
        """How many rows of an entry may be delivered for the first time without too many gaps.

        The message at the mark always may: no gap comes of it, and without it none would ever close.
        """
        room = max_gaps - self.progress.gap_count - self.unsettled
        return max(room, 1 if entry.start == self.progress.mark else 0)

    def full(self, max_gaps: int) -> bool:
        """Whether it is of no use to read more."""
        return bool(self.entries) and self.progress.gap_count + self.unsettled >= max_gaps

    def first_at(self, offset: int) -> int:
        """The index of the first entry that ends beyond an offset."""
        index = bisect_right(self.entries, offset, key=_START)
        return index - 1 if index and self.entries[index - 1].end > offset else index

    def add(self, entry: Entry) -> None:
        """Append one that was just read."""
        self.entries.append(entry)
        self.fresh += entry.rows

    def hold(self, run: Run) -> None:
        self._count(run.nbytes)

    def _count(self, nbytes: int) -> None:
        self.held_bytes += nbytes
        self._account.add(nbytes)

    def cut(self, entry: Entry, at: int) -> Entry:
        """Take the part below `at` out of an entry, as one of its own before it."""
        index = self._index(entry)
        part = entry.cut(at)
        self.entries.insert(index, part)
        return part

    def launch(self, entry: Entry) -> None:
        """Count a delivery."""
        if entry.deliveries == 0:
            self.fresh -= entry.rows
            self.unsettled += entry.rows
        entry.deliveries += 1

    def remove(self, entry: Entry) -> None:
        """Let go of a whole entry."""
        del self.entries[self._index(entry)]
        run, entry.run = entry.run, NO_RUN
        entry.state = State.SETTLED
        entry.stamp += 1
        self._release(run, entry.rows, delivered=entry.deliveries > 0)

    def shorten(self, entry: Entry, start: int) -> None:
        """Let go of the part of an entry below `start`."""
        rows, entry.start = start - entry.start, start
        self._release(entry.run, rows, delivered=entry.deliveries > 0)

    def _index(self, entry: Entry) -> int:
        return bisect_left(self.entries, entry.start, key=_START)

    def _release(self, run: Run, rows: int, *, delivered: bool) -> None:
        if delivered:
            self.unsettled -= rows
        else:
            self.fresh -= rows
        run.live -= rows
        if run.live == 0:
            self._count(-run.nbytes)
        elif run.live * SPARSE < run.batch.num_rows:
            self._sparse = True

    def thin_out(self) -> None:
        """Copy rows of which few are left, so that those around them can go."""
        if not self._sparse:
            return
        self._sparse = False
        for entry in self.entries:
            run = entry.run
            if run.live * SPARSE < run.batch.num_rows:
                rows = pa.array(np.arange(entry.start - run.first, entry.end - run.first))
                entry.run = Run(entry.start, run.batch.take(rows), run.epoch, entry.rows)
                self._count(entry.run.nbytes)
                run.live -= entry.rows
                if run.live == 0:
                    self._count(-run.nbytes)
