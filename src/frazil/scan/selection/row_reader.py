"""Reads the wanted rows of a unit: first the columns that decide, then the others if there is a row left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.scan.selection.row_filter import RowFilter


class RowSource(Protocol):
    """Has the rows of one unit, with all that anybody may see of them."""

    @property
    def rows(self) -> int: ...

    @property
    def bounds_ns(self) -> tuple[int, int]: ...

    def load(self, columns: Sequence[str]) -> pa.RecordBatch:
        """Returns all rows with these columns."""

    def alive(self) -> pa.BooleanArray | None:
        """Returns which rows were not deleted later, or None if none was."""


@dataclass(frozen=True)
class RowReader:
    """Knows what a scan wants of rows."""

    schema: pa.Schema
    """All columns of the topic."""
    columns: tuple[str, ...]
    """The columns that are wanted."""
    filter: RowFilter

    def selected(self, columns: Sequence[str]) -> pa.Schema:
        return pa.schema([self.schema.field(name) for name in columns])

    def read(
        self, source: RowSource, columns: Sequence[str] | None = None, *, filtered: bool = True
    ) -> pa.RecordBatch:
        """Returns the rows of a source that are wanted; without `filtered` those that the tenants may see."""
        wanted = self.columns if columns is None else tuple(columns)
        chooses = self.filter if filtered else RowFilter(self.filter.tenants, None, None)
        needed = without_needless_time(chooses, source.bounds_ns)
        looked_at = needed.columns
        first = None if needed.lets_all_through else source.load(looked_at)
        kept = self._kept(source, first, chooses)
        rest = [name for name in wanted if name not in looked_at]
        if kept is None:
            return self._joined(wanted, first, source.load(rest) if rest or first is None else None)
        if kept.true_count == 0:
            return empty_batch(self.selected(wanted))
        if not wanted:
            return rows_without_columns(kept.true_count)
        own = [name for name in wanted if name in looked_at]
        return self._joined(
            wanted,
            first.select(own).filter(kept) if first is not None and own else None,
            source.load(rest).filter(kept) if rest else None,
        )

    def kept(self, source: RowSource) -> pa.BooleanArray | None:
        """Returns which rows of a source are wanted, or None if all are."""
        needed = without_needless_time(self.filter, source.bounds_ns)
        return self._kept(source, None if needed.lets_all_through else source.load(needed.columns), self.filter)

    def positions(self, source: RowSource) -> npt.NDArray[np.int64]:
        """Returns the positions of the wanted rows in a source."""
        kept = self.kept(source)
        if kept is None:
            return np.arange(source.rows, dtype=np.int64)
        found: npt.NDArray[np.int64] = pc.indices_nonzero(kept).to_numpy().astype(np.int64)
        return found

    def _kept(self, source: RowSource, rows: pa.RecordBatch | None, chooses: RowFilter) -> pa.BooleanArray | None:
        found = without_needless_time(chooses, source.bounds_ns).mask(rows) if rows is not None else None
        alive = source.alive()
        if alive is not None:
            found = alive if found is None else pc.and_(found, alive)
        return None if found is None or found.true_count == source.rows else found

    def _joined(
        self, wanted: Sequence[str], first: pa.RecordBatch | None, second: pa.RecordBatch | None
    ) -> pa.RecordBatch:
        parts = [part for part in (first, second) if part is not None]
        if not wanted:
            return rows_without_columns(len(parts[0]))
        found = {name: part.column(name) for part in parts for name in part.schema.names}
        return pa.RecordBatch.from_arrays([found[name] for name in wanted], schema=self.selected(wanted))


def without_needless_time(wanted: RowFilter, bounds_ns: tuple[int, int]) -> RowFilter:
    if wanted.time is not None and wanted.time.covers(bounds_ns):
        return RowFilter(wanted.tenants, None, wanted.where, wanted.where_columns)
    return wanted


def rows_without_columns(count: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), count, [None]))


def empty_batch(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)
