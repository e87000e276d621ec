"""Presents a topic to DuckDB as an Arrow dataset, which is read anew for each scan."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from frazil.errors import QueryTimeout
from frazil.log.schema.columns import OFFSET
from frazil.scan.execution.pinned_scan import PinnedScan
from frazil.scan.predicates.arrow_expressions import from_arrow


class QueryScans:
    """Is shared by all scans of one query: they stop together, and the first failure is kept here."""

    def __init__(self) -> None:
        self.stopped = threading.Event()
        self.failure: Exception | None = None

    def check(self) -> None:
        if self.stopped.is_set():
            raise QueryTimeout("The query was stopped.")


class TopicScanner:
    """Implements what DuckDB uses of Arrow's `Scanner`.

    Arrow's own scanner would wait for batches on Arrow's IO threads. Parquet files are read on the same few threads,
    so a query with as many scans would wait for itself.
    """

    def __init__(self, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
        self.projected_schema = self.dataset_schema = schema
        self._batches = batches

    def to_reader(self) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._batches)


class TopicDataset(ds.Dataset):  # type: ignore[misc]
    """DuckDB accepts any subclass of Arrow's `Dataset`, and calls the methods defined here."""

    def __init__(self, pinned: PinnedScan, scans: QueryScans) -> None:
        self._pinned = pinned
        self._scans = scans

    @property
    def schema(self) -> pa.Schema:
        """Returns the columns with the offset first: to count rows, DuckDB reads the first column.

        It costs nothing to read the offsets of records that are not decoded yet.
        """
        fields = list(self._pinned.schema)
        return pa.schema(sorted(fields, key=lambda field: field.name != OFFSET))

    def scanner(
        self, columns: Sequence[str] | None = None, filter: pc.Expression | None = None, **_: object
    ) -> TopicScanner:
        """Applies `filter` exactly, because DuckDB does not check the rows again."""
        wanted = self.schema.names if columns is None else self._pinned.select_columns(columns)
        schema = pa.schema([self.schema.field(name) for name in wanted])
        return TopicScanner(schema, self._read(wanted, filter))

    def _read(self, columns: Sequence[str], where: pc.Expression | None) -> Iterator[pa.RecordBatch]:
        try:
            translated = None if where is None else from_arrow(where, self.schema)
            yield from self._pinned.read(columns, translated, stopped=self._scans.stopped)
            self._scans.check()
        except Exception as error:
            # DuckDB would turn the exception into text, so it is kept here.
            self._scans.failure = self._scans.failure or error
            raise
