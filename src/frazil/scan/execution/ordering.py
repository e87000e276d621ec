"""Brings the rows of many units into the order of their time, and stops when no later unit can matter.

Units come sorted by their bounds. A row is final when it comes before everything that the units to come can have.
Files and the tail have rows of any age, so only bounds end a scan, never the position of a row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.scan.interface import UNIT_ROWS
from frazil.scan.selection.row_reader import RowReader, RowSource
from frazil.scan.selection.time_column import LEAST, MOST, TimeColumn

Integers = npt.NDArray[np.int64]

LATE_ROWS = 10_000
"""Up to this limit, rows are read when they are known to be in the answer. For more, they are read with their
times."""
_MICROSECOND = 1000


class OrderedUnit(Protocol):
    @property
    def bounds_ns(self) -> tuple[int, int]: ...

    def source(self) -> RowSource: ...


@dataclass
class _Rows:
    """Has the keys of rows that are not final yet: columns by which they are ordered, and where they are."""

    keys: list[Integers] = field(default_factory=lambda: [np.empty(0, np.int64) for _ in range(6)])
    """These are the time in microseconds, the nanoseconds beyond, partition and offset; then the number of the unit,
    and the position in it."""

    def __len__(self) -> int:
        return len(self.keys[0])

    def add(self, keys: Sequence[Integers]) -> None:
        self.keys = [np.concatenate(each) for each in zip(self.keys, keys, strict=True)]

    def order(self, descending: bool) -> Integers:
        time, rest, partition, offset = self.keys[:4]
        ascending = np.lexsort((offset, partition, rest, time))
        return ascending[::-1] if descending else ascending

    def take(self, places: npt.NDArray[np.integer] | npt.NDArray[np.bool_]) -> _Rows:
        return _Rows([key[places] for key in self.keys])


class TimeOrder:
    """Merges units in the order of time. It is used once, by one thread."""

    def __init__(self, reader: RowReader, time: TimeColumn, *, descending: bool, limit: int | None) -> None:
        self._reader = reader
        self._time = time
        self._descending = descending
        self._left = limit
        self._late = limit is not None and limit <= LATE_ROWS
        names = (*time.columns, *(name for name in (PARTITION, OFFSET) if name in reader.schema.names))
        self._keys = tuple(dict.fromkeys(names))
        self._units: dict[int, RowSource | pa.RecordBatch] = {}
        self._waiting = _Rows()

    def batches(self, units: Iterator[OrderedUnit]) -> Iterator[pa.RecordBatch]:
        """Yields the wanted rows of all units, up to the limit. The units are sorted by their bounds."""
        for number, unit in enumerate(units):
            final = self._final(unit.bounds_ns)
            # Few rows are read all at once, so that no unit is decoded a second time.
            if self._left is None or not self._late or int(final.sum()) >= self._left:
                yield from self._emit(final)
            if self._left == 0:
                return
            self._read(number, unit.source())
        yield from self._emit(np.ones(len(self._waiting), np.bool_))

    def _final(self, bounds_ns: tuple[int, int]) -> npt.NDArray[np.bool_]:
        """Returns which of the waiting rows come before all rows of units with such bounds, and later ones."""
        times, (first, last) = self._waiting.keys[0], bounds_ns
        if self._descending:
            return times > last // _MICROSECOND if last < MOST else np.zeros(len(times), np.bool_)
        return times < first // _MICROSECOND if first > LEAST else np.zeros(len(times), np.bool_)

    def _read(self, number: int, source: RowSource) -> None:
        if not source.rows:
            return
        positions = self._reader.positions(source)
        if not len(positions):
            return
        rows = source.load(self._keys)
        time = self._time.microseconds(rows.column(self._time.name))[positions]
        rest = self._time.nanoseconds(rows)
        own = [
            _integers(rows.column(name))[positions] if name in self._keys else np.full(len(positions), -1, np.int64)
            for name in (PARTITION, OFFSET)
        ]
        keys = [
            time,
            np.zeros(len(positions), np.int64) if rest is None else rest[positions],
            *own,
            np.full(len(positions), number, np.int64),
            positions if self._late else np.arange(len(positions), dtype=np.int64),
        ]
        self._waiting.add(keys)
        if self._late:
            self._units[number] = source
        else:
            loaded = source.load(self._reader.columns)
            self._units[number] = loaded if len(positions) == source.rows else loaded.take(pa.array(positions))
        self._prune()

    def _prune(self) -> None:
        """Forgets rows behind the limit."""
        if self._left is None or len(self._waiting) <= self._left:
            return
        self._waiting = self._waiting.take(self._waiting.order(self._descending)[: self._left])
        self._release()

    def _release(self) -> None:
        """Forgets units none of whose rows is waiting."""
        used = set(np.unique(self._waiting.keys[4]).tolist())
        self._units = {number: unit for number, unit in self._units.items() if number in used}

    def _emit(self, final: npt.NDArray[np.bool_]) -> Iterator[pa.RecordBatch]:
        if not final.any():
            return
        rows, self._waiting = self._waiting.take(final), self._waiting.take(~final)
        order = rows.order(self._descending)
        if self._left is not None:
            order = order[: self._left]
            self._left -= len(order)
        for start in range(0, len(order), UNIT_ROWS):
            yield self._gathered(rows.take(order[start : start + UNIT_ROWS]))
        self._release()

    def _gathered(self, rows: _Rows) -> pa.RecordBatch:
        """Returns rows of several units in this order."""
        numbers, positions = rows.keys[4], rows.keys[5]
        parts, places = [], []
        for number in np.unique(numbers).tolist():
            at = np.flatnonzero(numbers == number)
            unit = self._units[number]
            loaded = unit if isinstance(unit, pa.RecordBatch) else unit.load(self._reader.columns)
            parts.append(loaded.take(pa.array(positions[at])))
            places.append(at)
        order = np.empty(len(numbers), np.int64)
        order[np.concatenate(places)] = np.arange(len(numbers))
        joined = parts[0] if len(parts) == 1 else pa.concat_batches(parts)
        return joined if (order == np.arange(len(order))).all() else joined.take(pa.array(order))


def _integers(column: pa.Array) -> Integers:
    """Returns numbers; those that are null come first."""
    found: Integers = column.cast(pa.int64()).fill_null(-1).to_numpy(zero_copy_only=False)
    return found
