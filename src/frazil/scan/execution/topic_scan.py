"""Has the rows of one topic at one cut, as a scan asked for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from frazil.scan.execution.ordering import TimeOrder
from frazil.scan.interface import Order, ScanStatistics
from frazil.scan.log_rows.units import LogUnit
from frazil.scan.planning.pruning import TimeBounds
from frazil.scan.predicates.tree import Predicate
from frazil.scan.prefetch import ReadTask, read_ahead
from frazil.scan.selection.row_reader import RowReader, rows_without_columns
from frazil.scan.selection.tally import Tally
from frazil.scan.selection.time_column import LEAST, MOST, TimeColumn
from frazil.scan.table.data_files import TableFile
from frazil.scan.table.units import RowGroup, TableReading, TableUnit

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class ChosenFiles:
    """Has the files of the table that may have wanted rows."""

    reading: TableReading
    places: np.ndarray
    """Where they are in the index of all files."""
    file: Callable[[int], TableFile]
    bounds: TimeBounds | None

    def groups(self, place: int) -> list[RowGroup]:
        known = (LEAST, MOST) if self.bounds is None else (self.bounds.first[place], self.bounds.last[place])
        return self.reading.row_groups(self.file(place), (int(known[0]), int(known[1])))


class TopicScan:
    """Can be read any number of times, and by any thread."""

    def __init__(
        self,
        reader: RowReader,
        files: ChosenFiles | None,
        log_units: Callable[[], list[LogUnit]],
        log_offsets: ReadTask | None,
        offsets: dict[int, int],
        tally: Tally,
        *,
        time: TimeColumn | None,
        order: Order,
        limit: int | None,
        stopped: threading.Event | None = None,
        narrowed: Callable[[tuple[str, ...], Predicate | None], TopicScan],
    ) -> None:
        """`log_offsets` yields the rows of the log without decoding them, if that is all that is wanted of them.

        `narrowed` returns a scan of the same cut with these columns, of rows for which a predicate is true too.
        """
        self.statistics: ScanStatistics = tally.statistics
        self._tally = tally
        self.offsets = offsets
        self._reader = reader
        self._files = files
        self._log_units = log_units
        self._log_offsets = log_offsets
        self._time = time
        self._order = order
        self._limit = limit
        self._stopped = stopped
        self._narrowed = narrowed

    @property
    def schema(self) -> pa.Schema:
        return self._reader.selected(self._reader.columns)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows in the order that was asked for, up to the limit. Batches may be empty."""
        if self._limit == 0:
            return
        if self._order == "none":
            yield from self._first(self._unordered())
            return
        assert self._time is not None
        merged = TimeOrder(self._reader, self._time, descending=self._order == "newest first", limit=self._limit)
        for batch in merged.batches(self.units()):
            if self._stopped is not None and self._stopped.is_set():
                return
            self._tally.out(batch.num_rows)
            yield batch

    def table(self) -> pa.Table:
        found = list(self.batches())
        if self.schema.names:
            return pa.Table.from_batches(found, self.schema)
        return pa.Table.from_batches([rows_without_columns(sum(batch.num_rows for batch in found))])

    def lazy(self) -> pl.LazyFrame:
        """Returns a frame that reads when it is collected, and only the columns that it needs then."""
        from frazil.scan.execution.polars_frame import lazy_frame

        def batches(columns: Sequence[str], where: Predicate | None) -> Iterator[pa.RecordBatch]:
            return self._narrowed(tuple(columns), where).batches()

        # A predicate chooses among the rows up to the limit.
        return lazy_frame(self.schema, self._reader.schema, batches, pushes=self._limit is None)

    def units(self) -> Iterator[TableUnit | LogUnit]:
        """Yields all units that may have wanted rows. With an order, they are sorted by their bounds."""
        if self._order != "none":
            yield from self._sorted_units(descending=self._order == "newest first")
            return
        for place in self._places():
            for group in self._groups(place):
                yield from group.units()
        yield from self.log_units()

    def _sorted_units(self, *, descending: bool) -> Iterator[TableUnit | LogUnit]:
        """Opens a file when its bounds come next, so that a scan that ends early does not open the others."""
        side = int(descending)
        sign = -1 if descending else 1
        numbers = count()
        heap: list[tuple[int, int, TableUnit | LogUnit]] = []
        for found in self.log_units():
            heappush(heap, (sign * found.bounds_ns[side], next(numbers), found))
        if self._files is not None:
            assert self._files.bounds is not None
            bounds = self._files.bounds[side][self._files.places]
            order = np.argsort(bounds, kind="stable")
            for at in order[::-1] if descending else order:
                bound = sign * int(bounds[at])
                while heap and heap[0][0] < bound:
                    yield heappop(heap)[2]
                for group in self._groups(int(self._files.places[at])):
                    # A file cannot have rows outside of its own bounds.
                    key = max(bound, sign * group.bounds_ns[side])
                    for unit in group.units():
                        heappush(heap, (key, next(numbers), unit))
        while heap:
            yield heappop(heap)[2]

    def _unordered(self) -> Iterator[pa.RecordBatch]:
        yield from read_ahead(self._tasks(), self._stopped)

    def _tasks(self) -> Iterator[ReadTask]:
        for place in self._places():
            for group in self._groups(place):
                yield group.batches
        if self._log_offsets is not None:
            yield self._log_offsets
            return
        for unit in self.log_units():
            yield unit.batches

    def _places(self) -> Sequence[int]:
        found: list[int] = [] if self._files is None else self._files.places.tolist()
        return found

    def _groups(self, place: int) -> list[RowGroup]:
        assert self._files is not None
        return self._files.groups(place)

    def log_units(self) -> Iterator[LogUnit]:
        """Yields the units of the log. The tail is decoded when it is asked for them, if it is not yet."""
        within = self._reader.filter.time
        for unit in self._log_units():
            if within is None or within.touches(unit.bounds_ns):
                yield unit

    def _first(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        left = self._limit
        for batch in batches:
            if left is None:
                yield batch
                continue
            rows = batch if batch.num_rows <= left else _head(batch, left)
            left -= rows.num_rows
            yield rows
            if left == 0:
                return


def _head(batch: pa.RecordBatch, count: int) -> pa.RecordBatch:
    return batch.slice(0, count) if batch.num_columns else rows_without_columns(count)
