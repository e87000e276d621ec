"""Selects a few rows from batches that come in no order, and keeps only these in memory."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.log.schema.row_sizes import ANSWER_BYTES, first_within


class LastRowPerPartition:
    """Keeps the last row of each partition, by its offset in the log."""

    def __init__(self, schema: pa.Schema) -> None:
        self.rows = schema.empty_table()

    def add(self, batch: pa.RecordBatch) -> None:
        rows = _joined(self.rows, batch)
        self.rows = rows.take(_first_of_each(rows, [(OFFSET, "descending")], PARTITION))


class FirstRowsByOffset:
    """Keeps the first rows by `column`, which has the source's offsets, up to `limit` and the size of an answer.

    A source may have been recreated and have used an offset again. Then the row that is last in the log counts.
    """

    def __init__(self, schema: pa.Schema, column: str, limit: int) -> None:
        self.rows = schema.empty_table()
        self.next_offset: int | None = None
        """The first row that was left out has this offset."""
        self._column = column
        self._limit = limit

    def add(self, batch: pa.RecordBatch) -> None:
        if self.next_offset is not None:
            batch = batch.filter(pc.field(self._column) < self.next_offset)
        rows = _joined(self.rows, batch)
        order = [(self._column, "ascending"), (OFFSET, "descending")]
        rows = rows.take(_first_of_each(rows, order, self._column)[: self._limit + 1])
        count = min(self._limit, max(1, first_within(rows, ANSWER_BYTES)))
        if count < len(rows):
            self.next_offset = rows[self._column][count].as_py()
            # This makes a copy, because a slice would keep the other rows in memory.
            rows = rows.take(pa.array(range(count), pa.int64()))
        self.rows = rows


def _joined(rows: pa.Table, batch: pa.RecordBatch) -> pa.Table:
    return pa.concat_tables([rows, pa.Table.from_batches([batch], rows.schema)])


def _first_of_each(rows: pa.Table, order: list[tuple[str, str]], column: str) -> pa.Array:
    """Returns, for each value of a column, the index of its first row in this order. The values ascend."""
    ordered = pc.sort_indices(rows, sort_keys=order)
    _, first = np.unique(rows[column].take(ordered).to_numpy(), return_index=True)
    return ordered.take(pa.array(first))
