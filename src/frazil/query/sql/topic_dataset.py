"""A topic as DuckDB wants it: something that is asked for columns and rows, anew for each time it is scanned."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from frazil.errors import QueryTimeout
from frazil.scan.pinned_topic import PinnedTopic


class QueryScans:
    """What the scans of one query have in common: they end together, and tell what went wrong in them."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self.failure: Exception | None = None

    def check(self) -> None:
        if self.stopped.is_set():
            raise QueryTimeout("The query was stopped.")


class TopicScanner:
    """What DuckDB uses of Arrow's `Scanner`.

    A scanner of Arrow's own would wait for batches on Arrow's IO threads. Parquet files are read on the same few
    threads, so that a query with as many scans would wait for itself.
    """

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self.projected_schema = self.dataset_schema = schema
        self._batches = batches

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._batches)


class TopicDataset(ds.Dataset):  # type: ignore[misc]
    """DuckDB takes any subclass of Arrow's `Dataset` for one, and calls what is defined here."""

    def __init__(self, pinned: PinnedTopic, scans: QueryScans) -> None:
        self._pinned = pinned
        self._scans = scans

    @property
    def schema(self) -> pa.Schema:
        return self._pinned.schema

    def scanner(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: object
    ) -> TopicScanner:
        """`filter` is applied here, to the letter: DuckDB does not look at these rows again."""
        wanted = self._pinned.select_columns(columns)
        schema = pa.schema([self.schema.field(name) for name in wanted])
        return TopicScanner(schema, self._read(wanted, filter))

    def _read(self, columns: Sequence[str], where: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        try:
            yield from self._pinned.read(columns, where, stopped=self._scans.stopped)
            self._scans.check()
        except Exception as error:
            # DuckDB makes a text of it.
            self._scans.failure = self._scans.failure or error
            raise
