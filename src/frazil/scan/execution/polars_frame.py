"""Gives rows as a lazy frame of Polars, which reads only the columns and rows that a query needs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import polars as pl
import pyarrow as pa
from polars.io.plugins import register_io_source

from frazil.scan.predicates.polars_expressions import from_polars
from frazil.scan.predicates.tree import Predicate

Batches = Callable[[Sequence[str], Predicate | None], Iterator[pa.RecordBatch]]
"""Reads these columns of the rows for which the predicate is true."""


def lazy_frame(schema: pa.Schema, whole: pa.Schema, batches: Batches, *, pushes: bool = True) -> pl.LazyFrame:
    """Returns a frame that reads when it is collected.

    The frame has the columns of `schema`, and predicates may use those of `whole`. Without `pushes` Polars applies
    all predicates itself.
    """

    def source(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, _: int | None
    ) -> Iterator[pl.DataFrame]:
        pushed, rest = None, predicate
        if pushes and predicate is not None:
            pushed, rest = from_polars(predicate, whole)
        wanted = schema.names if columns is None else columns
        # Polars may push down a predicate on columns that it does not want, and cannot count rows without columns.
        used = (
            list(dict.fromkeys((*wanted, *(rest.meta.root_names() if rest is not None else ())))) or schema.names[:1]
        )
        left = rows
        for batch in batches(used, pushed):
            frame = pl.DataFrame(plain(pa.Table.from_batches([batch])))
            if rest is not None:
                frame = frame.filter(rest)
            frame = frame.select(wanted or used)
            if left is not None:
                frame = frame.head(left)
                left -= len(frame)
            yield frame
            if left == 0:
                return

    return register_io_source(source, schema=pl.DataFrame(plain(schema.empty_table())).schema)


def plain(table: pa.Table) -> pa.Table:
    """Replaces extension types, which Polars does not know, by their storage types."""
    for index, column in enumerate(table.columns):
        if isinstance(column.type, pa.BaseExtensionType):
            storage = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
            table = table.set_column(index, table.field(index).name, storage)
    return table
