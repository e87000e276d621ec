"""Merges sorted inputs into one sequence of rows in the table's order.

Of each input only a batch is in memory. The lowest of the last keys of these batches is a limit: no row that comes
later is below it. So all rows up to the limit are taken from the batches and sorted together, and they are the next
ones. Inputs that begin above the limit take no part, so each row is sorted once, and where one input alone is next
its rows are not sorted at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from frazil.lake.write.sorting import Sorter, SortKey


class OutOfOrder(Exception):
    """Raised when an input is not sorted. `path` names it."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        self.path = path


class SortedInput:
    """The rows of one input from the next on."""

    def __init__(self, path: str, batches: Iterator[pa.RecordBatch], sorter: Sorter) -> None:
        self._path = path
        self._batches = batches
        self._sorter = sorter
        self._rows: pa.RecordBatch | None = None
        self.first: SortKey = ()
        self.last: SortKey = ()

    def load(self) -> bool:
        """Gets the next batch if there is none. Returns whether there are any more rows."""
        if self._rows is not None and len(self._rows):
            return True
        before = None if self._rows is None else self.last
        self._rows = next(self._batches, None)
        if self._rows is None:
            return False
        self.first = self._sorter.key(self._rows, 0)
        self.last = self._sorter.key(self._rows, len(self._rows) - 1)
        if (before is not None and self.first < before) or not self._sorter.in_order(self._rows):
            raise OutOfOrder(self._path)
        return True

    def take(self, limit: SortKey) -> pa.RecordBatch:
        """Takes the rows up to the limit."""
        rows = self._rows
        assert rows is not None
        count = len(rows) if self.last <= limit else self._count(rows, limit)
        self._rows = rows.slice(count)
        if len(self._rows):
            self.first = self._sorter.key(self._rows, 0)
        return rows.slice(0, count)

    def _count(self, rows: pa.RecordBatch, limit: SortKey) -> int:
        """Returns how many rows are not above the limit."""
        low, high = 0, len(rows)
        while low < high:
            middle = (low + high) // 2
            if self._sorter.key(rows, middle) <= limit:
                low = middle + 1
            else:
                high = middle
        return low


def merge(inputs: Iterable[SortedInput], sorter: Sorter) -> Iterator[pa.Table]:
    """Yields the rows of all inputs in order."""
    live = [each for each in inputs if each.load()]
    while live:
        limit = min(each.last for each in live)
        parts = [each.take(limit) for each in live if each.first <= limit]
        rows = pa.Table.from_batches(parts)
        order = None
        if len(parts) > 1:
            rows = rows.combine_chunks()
            order = sorter.order(rows)
        yield rows if order is None else rows.take(order)
        live = [each for each in live if each.load()]
