"""Gives a scan as a lazy frame of Polars, which reads only the columns that a query needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

Batches = Callable[[list[str] | None], Iterator[pa.RecordBatch]]
"""Reads the rows with these columns, or with all."""


def lazy_frame(schema: pa.Schema, batches: Batches) -> pl.LazyFrame:
    """Returns a frame that reads when it is collected."""

    def source(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        left = rows
        needed = _with_columns_of(columns, predicate)
        for batch in batches(needed):
            frame = pl.DataFrame(plain(pa.Table.from_batches([batch])))
            if predicate is not None:
                frame = frame.filter(predicate)
            if columns is not None:
                frame = frame.select(columns)
            if left is not None:
                frame = frame.head(left)
                left -= len(frame)
            yield frame
            if left == 0:
                return

    return register_io_source(source, schema=pl.DataFrame(plain(schema.empty_table())).schema)


def _with_columns_of(columns: list[str] | None, predicate: pl.Expr | None) -> list[str] | None:
    if columns is None or predicate is None:
        return columns
    return list(dict.fromkeys([*columns, *predicate.meta.root_names()]))


def plain(table: pa.Table) -> pa.Table:
    """Replaces extension types, which Polars does not know, by their storage types."""
    for index, column in enumerate(table.columns):
        if isinstance(column.type, pa.BaseExtensionType):
            storage = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
            table = table.set_column(index, table.field(index).name, storage)
    return table
