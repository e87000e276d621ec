"""Reads the messages of a partition from its table, offset by offset, whichever files they are in.

Files are opened when they are needed. Compaction may have put neighbours into different files, with messages of other
partitions between them. So the reader picks, among all files that may have the next offset, the one that has it.
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
from frazil.scan.offset_ranges import OffsetRange
from frazil.scan.table_files import plan_files
from frazil.topics.read.data_file import ColumnIds, DataFile, OffsetRows, Unordered

MOST_OPEN = 4
"""So many files are open at a time, each with a chunk in memory."""


MOST_FILES = 64
"""So many files are remembered for later."""


class TableGap(Exception):
    """Raised when the table lacks an offset, and all that follow up to `next`."""

    def __init__(self, next: int) -> None:
        super().__init__(next)
        self.next = next


def first_from(table: Table, partition: int, offset_range: OffsetRange) -> int:
    """Returns the first of these offsets that a table has, or the end if it has none."""
    while offset_range.rows:
        try:
            next(iter(TableRuns(table, partition, offset_range)))
            break
        except TableGap as gap:
            offset_range = OffsetRange(gap.next, offset_range.end)
    return offset_range.start


@dataclass(order=True)
class _PendingFile:
    """Is a file that is not needed yet, because it has nothing before `lowest`."""

    lowest: int
    path: str
    task: FileScanTask = field(compare=False)
    exact: bool = field(default=False, compare=False)
    """The file has that offset, and it belongs to this partition."""


@dataclass(eq=False)
class _OpenFile:
    task: FileScanTask
    file: DataFile
    rest: Iterator[OffsetRows]
    rows: OffsetRows


class TableRuns:
    """Yields runs `(first offset, messages)` without gaps, and raises `TableGap` where there is one.

    It ends early where there are many files, because a list of all of them would fill the memory of slow readers.
    """

    def __init__(self, table: Table, partition: int, offset_range: OffsetRange) -> None:
        self._name = name_of(table)
        self._io = VerifyingFileIO.of(table)
        self._fields = ColumnIds.of(table)
        self._partition = partition
        self._waiting = sorted(
            _PendingFile(self._fields.lowest(task), task.file.file_path, task)
            for task in plan_files(table, {partition: offset_range})
        )
        border = next(
            (each.lowest for each in self._waiting[MOST_FILES:] if each.lowest > offset_range.start), offset_range.end
        )
        self._waiting = [each for each in self._waiting if each.lowest < border]
        self._offset_range = OffsetRange(offset_range.start, min(border, offset_range.end))
        self._open: list[_OpenFile] = []
        self._unordered: set[str] = set()

    def __iter__(self) -> Iterator[tuple[int, pa.RecordBatch]]:
        at = self._offset_range.start
        try:
            while at < self._offset_range.end:
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
        """Returns the messages from an offset on."""
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
                raise TableGap(self._offset_range.end)
            first = self._waiting[0]
            if first.lowest > at and first.exact:
                raise TableGap(min(first.lowest, self._offset_range.end))
            # The lowest offset may belong to another partition, so the file must be read.
            self._begin(heapq.heappop(self._waiting).task, at)

    def _begin(self, task: FileScanTask, at: int) -> None:
        file = DataFile(self._io, task, self._fields, self._partition)
        opened = _OpenFile(task, file, iter(()), _EMPTY)
        self._open.append(opened)
        opened.rest = file.sorted(at) if file.path in self._unordered else file.ordered(at)
        self._advance(opened, at)

    def _advance(self, each: _OpenFile, at: int) -> bool:
        """Skips rows before an offset. Returns False, and closes the file, when nothing is left."""
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

    def _take(self, each: _OpenFile) -> pa.RecordBatch:
        """Returns the longest run of successive offsets at the beginning."""
        offsets, batch = each.rows
        whole = int(offsets[-1]) - int(offsets[0]) == len(offsets) - 1
        count = len(offsets) if whole else int(np.flatnonzero(np.diff(offsets) != 1)[0]) + 1
        count = min(count, self._offset_range.end - int(offsets[0]))
        each.rows = OffsetRows(offsets[count:], batch.slice(count))
        return batch.slice(0, count)

    def _put_back(self, at: int, keep: int) -> None:
        """Closes all files but those that are needed next, and remembers the first offset from `at` on of the others.

        If a file has another order, that is not the offset that was read first.
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
            heapq.heappush(self._waiting, _PendingFile(lowest, each.file.path, each.task, exact=True))
            each.file.close()
            self._open.remove(each)


_EMPTY = OffsetRows(np.empty(0, np.int64), None)
