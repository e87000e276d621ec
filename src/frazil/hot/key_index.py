"""The index by key: sorted runs of hashes, each for a stretch of offsets, merged as they get many.

An entry is one number of 64 bits: the key's hash above, the row below, counted from where the run begins. So a run is
sorted by hash and then by age, takes eight bytes a row, and is searched by bisection. Runs follow each other as the
offsets do: the newest row of a key is in the newest run that has it, and a run goes when its rows are gone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from frazil.hot.keys import Words, hash_keys

GROUP = 4
"""Runs that are merged at a time."""
SHARE = 4
"""A run has at most this part of a partition's rows, so that little of it stays when its first rows go."""
SMALLEST, LARGEST = 1 << 14, 1 << 20
"""Bounds of that: below, merging is too cheap to care; above, one merge would take too long."""
_ROW = np.uint64(0xFFFF_FFFF)
_SHIFT = np.uint64(32)


@dataclass(frozen=True, slots=True)
class IndexRun:
    start: int
    end: int
    """The offsets that it is about."""
    entries: Words = field(repr=False)
    view: memoryview = field(repr=False)
    """The same; bisection in it never lets another thread in between."""

    @property
    def rows(self) -> int:
        return self.end - self.start

    @property
    def nbytes(self) -> int:
        return int(self.entries.nbytes)


def _index_run(start: int, end: int, entries: Words) -> IndexRun:
    return IndexRun(start, end, entries, entries.data)


def build(offset: int, keys: pa.Array) -> IndexRun:
    """The run of a batch; rows without a key are not in it."""
    rows = np.arange(len(keys), dtype=np.uint64)
    entries = (hash_keys(keys) << _SHIFT) | rows
    if keys.null_count:
        entries = entries[np.asarray(keys.is_valid())]
    entries.sort()
    return _index_run(offset, offset + len(keys), entries)


def candidates(runs: Sequence[IndexRun], hashed: int) -> Iterator[int]:
    """Offsets of rows whose key may have this hash, the newest first."""
    low, high = hashed << 32, (hashed + 1) << 32
    for run in reversed(runs):
        view = run.view
        at = bisect_left(view, high)
        while at and (entry := view[at - 1]) >= low:
            yield run.start + entry - low
            at -= 1


def cut(run: IndexRun, start: int, end: int) -> IndexRun:
    """What is left of a run for the rows from `start` to `end`."""
    start, end = max(run.start, start), min(run.end, end)
    if (start, end) == (run.start, run.end):
        return run
    rows = run.entries & _ROW
    moved = np.uint64(start - run.start)
    kept = run.entries[(rows >= moved) & (rows < np.uint64(end - run.start))] - moved
    return _index_run(start, end, kept)


def merge(runs: Sequence[IndexRun], start: int) -> IndexRun:
    """Neighbours as one; rows below `start`, which are gone, are left out."""
    left = [cut(run, start, run.end) for run in runs if run.end > start]
    first = left[0].start
    entries = np.concatenate([run.entries + np.uint64(run.start - first) for run in left])
    # Stable means that what is sorted already, each run by itself, is only merged.
    entries.sort(kind="stable")
    return _index_run(first, left[-1].end, entries)


def merge_due(runs: tuple[IndexRun, ...], start: int) -> tuple[IndexRun, ...]:
    """The runs with those merged that are worth it."""
    while (at := _due_at(runs, start)) is not None:
        runs = (*runs[:at], merge(runs[at : at + GROUP], start), *runs[at + GROUP :])
    return runs


def _due_at(runs: tuple[IndexRun, ...], start: int) -> int | None:
    """Where neighbours begin that are to be merged: of similar size, or it would be much work for little."""
    if len(runs) < GROUP:
        return None
    most = min(max((runs[-1].end - start) // SHARE, SMALLEST), LARGEST)
    for at in range(len(runs) - GROUP, -1, -1):
        rows = [run.rows for run in runs[at : at + GROUP]]
        total = sum(rows)
        if total <= most and max(rows) * 4 <= total * 3:
            return at
    return None
