"""Has a topic at one cut, of which repeated reads with other columns and conditions give the same rows."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import pyarrow as pa
from pyiceberg.schema import Schema

from frazil.errors import CallError
from frazil.log.topics.naming import hint
from frazil.scan.execution.topic_scan import TopicScan
from frazil.scan.interface import ScanRequest
from frazil.scan.predicates.arrow_expressions import Translated
from frazil.scan.predicates.simplify import all_of
from frazil.scan.predicates.tree import Predicate

Scan = Callable[[ScanRequest, threading.Event | None], TopicScan]


class PinnedScan:
    """Any thread may read. All reads are limited to the rows that `request` names."""

    def __init__(self, request: ScanRequest, scan: Scan, schema: Schema) -> None:
        self.topic = request.topic
        self._request = request
        self._scan = scan
        whole = scan(request, None)
        self.schema: pa.Schema = whole.schema
        self.iceberg_schema = schema
        self.offsets = whole.offsets
        self.complete = whole.statistics.complete
        """Whether every record is seen that was acknowledged before: not if a tail is on another machine, or in the
        memory of another process."""

    def select_columns(self, columns: Sequence[str] | None) -> list[str]:
        """Returns the columns asked for, or all. Raises `CallError` for a column that does not exist."""
        names = self.schema.names
        for column in columns or ():
            if column not in names:
                raise CallError(f"Topic {self.topic!r} has no column {column!r}.{hint(column, names)}")
        return names if columns is None else list(columns)

    def read(
        self,
        columns: Sequence[str] | None = None,
        where: Predicate | Translated | None = None,
        stopped: threading.Event | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yields the rows for which `where` is true, with these columns. It ends early when `stopped` is set."""
        wanted = self.select_columns(columns)
        given = where if isinstance(where, Translated) else Translated(where, None, ())
        extra = [name for name in given.columns if name not in wanted] if given.rest is not None else []
        request = replace(
            self._request, columns=(*wanted, *extra), where=all_of(self._request.where, given.predicate)
        )
        for batch in self._scan(request, stopped).batches():
            rows = batch if given.rest is None else batch.filter(given.rest)
            if rows.num_rows:
                yield rows.select(wanted) if extra else rows
