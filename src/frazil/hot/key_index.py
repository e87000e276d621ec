"""Indexes keys with sorted runs of hashes. Each run covers a range of offsets, and runs are merged when there are
many.

An entry is a 64-bit number: the high half is the hash of the key, the low half is the row, counted from the start of
the run. So a run is sorted by hash and then by age, takes eight bytes a row, and is searched by bisection. Runs are
in the order of their offsets: the newest row of a key is in the newest run that has it, and a run goes when its rows
are gone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from frazil.hot.keys import Words, hash_keys

GROUP = 4
"""This many runs are merged at a time."""
SHARE = 4
"""A run has at most this fraction of a partition's rows, so that it goes soon after its first rows."""
SMALLEST, LARGEST = 1 << 14, 1 << 20
"""These bound the size of a run. Below, merging is cheap; above, one merge would take too long."""
_ROW = np.uint64(0xFFFF_FFFF)
_SHIFT = np.uint64(32)


@dataclass(frozen=True, slots=True)
class IndexRun:
    start: int
    end: int
    """The run covers the offsets from `start` to `end`."""
    entries: Words = field(repr=False)
    view: memoryview = field(repr=False)
    """It is a view of `entries`. Bisection in it never releases the interpreter lock."""

    @property
    def rows(self) -> int:
        return self.end - self.start

    @property
    def nbytes(self) -> int:
        return int(self.entries.nbytes)


def _index_run(start: int, end: int, entries: Words) -> IndexRun:
    return IndexRun(start, end, entries, entries.data)


def build(offset: int, keys: pa.Array) -> IndexRun:
    """Builds the run of a batch. Rows without a key are not in it."""
    rows = np.arange(len(keys), dtype=np.uint64)
    entries = (hash_keys(keys) << _SHIFT) | rows
    if keys.null_count:
        entries = entries[np.asarray(keys.is_valid())]
    entries.sort()
    return _index_run(offset, offset + len(keys), entries)


def candidates(runs: Sequence[IndexRun], hashed: int) -> Iterator[int]:
    """Yields the offsets of rows whose key may have this hash, the newest first."""
    low, high = hashed << 32, (hashed + 1) << 32
    for run in reversed(runs):
        view = run.view
        at = bisect_left(view, high)
        while at and (entry := view[at - 1]) >= low:
            yield run.start + entry - low
            at -= 1


def cut(run: IndexRun, start: int, end: int) -> IndexRun:
    """Returns the part of a run for the rows from `start` to `end`."""
    start, end = max(run.start, start), min(run.end, end)
    if (start, end) == (run.start, run.end):
        return run
    rows = run.entries & _ROW
    moved = np.uint64(start - run.start)
    kept = run.entries[(rows >= moved) & (rows < np.uint64(end - run.start))] - moved
    return _index_run(start, end, kept)


def merge(runs: Sequence[IndexRun], start: int) -> IndexRun:
    """Merges neighbouring runs, without the rows below `start`, which are gone."""
    left = [cut(run, start, run.end) for run in runs if run.end > start]
    first = left[0].start
    entries = np.concatenate([run.entries + np.uint64(run.start - first) for run in left])
    # A stable sort only merges, because each run is sorted already.
    entries.sort(kind="stable")
    return _index_run(first, left[-1].end, entries)


def merge_due(runs: tuple[IndexRun, ...], start: int) -> tuple[IndexRun, ...]:
    """Merges runs where it is worth it."""
    while (at := _due_at(runs, start)) is not None:
        runs = (*runs[:at], merge(runs[at : at + GROUP], start), *runs[at + GROUP :])
    return runs


def _due_at(runs: tuple[IndexRun, ...], start: int) -> int | None:
    """Returns where a group of runs begins that should be merged. They have similar sizes, or merging would be
    wasteful."""
    if len(runs) < GROUP:
        return None
    most = min(max((runs[-1].end - start) // SHARE, SMALLEST), LARGEST)
    for at in range(len(runs) - GROUP, -1, -1):
        rows = [run.rows for run in runs[at : at + GROUP]]
        total = sum(rows)
        if total <= most and max(rows) * 4 <= total * 3:
            return at
    return None
