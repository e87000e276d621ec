"""The messages of a partition as its table has them, offset by offset, whatever files they are in.

Files are opened when their turn comes. Compaction may have put neighbours into different files, and messages of other
partitions between them; so of all files that may have the next offset, the one that has it is read on.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from pyiceberg.table import FileScanTask, Table

from frazil.lake.catalog.calls import calling
from frazil.lake.checksums.verifying_io import VerifyingFileIO
from frazil.lake.commit.offsets import name_of
from frazil.scan.cut import Span
from frazil.scan.table_files import plan_files
from frazil.topics.read.table_files import DataFile, Fields, Rows, Unordered

MOST_OPEN = 4
"""Files that are open at a time, each with a piece in memory."""


MOST_FILES = 64
"""Files that are remembered for later."""


class Hole(Exception):
    """The table does not have an offset, nor any that follows before `next`."""

    def __init__(self, next: int) -> None:
        super().__init__(next)
        self.next = next


def first_from(table: Table, partition: int, span: Span) -> int:
    """The first offset of these that a table has; the end if it has none."""
    while span.rows:
        try:
            next(iter(TableRuns(table, partition, span)))
            break
        except Hole as hole:
            span = Span(hole.next, span.end)
    return span.start


@dataclass(order=True)
class _Waiting:
    """A file whose turn has not come: it has nothing before `lowest`."""

    lowest: int
    path: str
    task: FileScanTask = field(compare=False)
    exact: bool = field(default=False, compare=False)
    """It has that offset, of this partition."""


@dataclass(eq=False)
class _Open:
    task: FileScanTask
    file: DataFile
    rest: Iterator[Rows]
    rows: Rows


class TableRuns:
    """Iterates over runs `(first offset, messages)` without gaps; raises `Hole` where there is one.

    Ends early where there are many files: what is known of each would fill the memory of those who read slowly.
    """

    def __init__(self, table: Table, partition: int, span: Span) -> None:
        self._name = name_of(table)
        self._io = VerifyingFileIO.of(table)
        self._fields = Fields.of(table)
        self._partition = partition
        self._waiting = sorted(
            _Waiting(self._fields.lowest(task), task.file.file_path, task)
            for task in plan_files(table, {partition: span})
        )
        border = next((each.lowest for each in self._waiting[MOST_FILES:] if each.lowest > span.start), span.end)
        self._waiting = [each for each in self._waiting if each.lowest < border]
        self._span = Span(span.start, min(border, span.end))
        self._open: list[_Open] = []
        self._unordered: set[str] = set()

    def __iter__(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        at = self._span.start
        try:
            while at < self._span.end:
                with calling(f"Reading table {self._name}"):
                    rows = self._next(at)
                first, at = at, at + len(rows)
                yield first, rows
        finally:
            self.close()

    def close(self) -> None:
        for each in self._open:
            each.file.close()
        self._open = []

    def _next(self, at: int) -> pa.RecordBatch:
        """The run that begins at an offset."""
        while True:
            while self._waiting and self._waiting[0].lowest <= at:
                self._begin(heapq.heappop(self._waiting).task, at)
            for each in list(self._open):
                if self._advance(each, at) and each.rows.offsets[0] == at:
                    run = self._take(each)
                    self._put_back(at + len(run), keep=MOST_OPEN)
                    return run
            self._put_back(at, keep=0)
            if not self._waiting:
                raise Hole(self._span.end)
            first = self._waiting[0]
            if first.lowest > at and first.exact:
                raise Hole(min(first.lowest, self._span.end))
            # The lowest offset may be one of another partition: look.
            self._begin(heapq.heappop(self._waiting).task, at)

    def _begin(self, task: FileScanTask, at: int) -> None:
        file = DataFile(self._io, task, self._fields, self._partition)
        opened = _Open(task, file, iter(()), _EMPTY)
        self._open.append(opened)
        opened.rest = file.sorted(at) if file.path in self._unordered else file.ordered(at)
        self._advance(opened, at)

    def _advance(self, each: _Open, at: int) -> bool:
        """Skip what is before an offset; False, and the file is done with, when nothing is left."""
        each.rows = each.rows.since(at)
        while not len(each.rows.offsets):
            try:
                following = next(each.rest, None)
            except Unordered:
                self._unordered.add(each.file.path)
                each.rest = each.file.sorted(at)
                continue
            if following is None:
                each.file.close()
                self._open.remove(each)
                return False
            each.rows = following.since(at)
        return True

    def _take(self, each: _Open) -> pa.RecordBatch:
        """The longest run at its beginning."""
        offsets, batch = each.rows
        whole = int(offsets[-1]) - int(offsets[0]) == len(offsets) - 1
        count = len(offsets) if whole else int(np.flatnonzero(np.diff(offsets) != 1)[0]) + 1
        count = min(count, self._span.end - int(offsets[0]))
        each.rows = Rows(offsets[count:], batch.slice(count))
        return batch.slice(0, count)

    def _put_back(self, at: int, keep: int) -> None:
        """Let go of all files but those whose turn comes next; what the others have first from `at` on is known then.

        Where rows are in another order than that of their offsets, it is not what was read first.
        """
        if len(self._open) <= keep:
            return
        left = [each for each in list(self._open) if self._advance(each, at)]
        left.sort(key=lambda each: int(each.rows.offsets[0]))
        for each in left[keep:]:
            lowest = int(each.rows.offsets[0])
            if each.file.path not in self._unordered and (least := each.file.lowest(at)) < lowest:
                self._unordered.add(each.file.path)
                lowest = least
            heapq.heappush(self._waiting, _Waiting(lowest, each.file.path, each.task, exact=True))
            each.file.close()
            self._open.remove(each)


_EMPTY = Rows(np.empty(0, np.int64), None)
