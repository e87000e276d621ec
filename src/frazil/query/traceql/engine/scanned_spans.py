"""Reads spans with scans: from table and log at one cut each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import TopicNotFound
from frazil.formats.otlp.spans import SCHEMA, TOPIC
from frazil.log.schema.columns import NANOSECONDS
from frazil.query.traceql.engine.source import Budget, SpanBatch
from frazil.scan.interface import Scan, Scanner, ScanRequest, Unit
from frazil.scan.predicates.tree import Column, In, Predicate

MANY = 256
"""More ids of traces than these are looked up here, and are no part of the predicate of a scan."""


class ScannedSpans:
    """Is the source of the spans that some tenants may see."""

    def __init__(self, scanner: Scanner, tenants: tuple[str, ...], budget: Budget) -> None:
        self._scanner = scanner
        self._tenants = tenants
        self._budget = budget
        self._names: frozenset[str] | None = None
        self._most_bytes = 0
        self.scans: list[Scan] = []
        """All scans that were made, for their statistics."""

    def batches(
        self, start_ns: int, end_ns: int, where: Predicate | None, columns: Sequence[str]
    ) -> Iterator[SpanBatch]:
        scan = self._scan(start_ns, end_ns, where, columns)
        if scan is None:
            return
        for unit in scan.units():
            self._budget.check()
            yield SpanBatch(pa.Table.from_batches([unit.read()]), unit.bounds_ns[1])

    def traces(
        self, ids: Sequence[bytes], start_ns: int | None, end_ns: int | None, columns: Sequence[str]
    ) -> pa.Table:
        many = len(ids) > MANY
        scan = self._scan(start_ns, end_ns, None if many else In(Column("trace_id"), frozenset(ids)), columns)
        if scan is None:
            return pa.schema([SCHEMA.field(name) for name in columns]).empty_table()
        wanted = pa.array(ids, pa.binary(16))
        parts = []
        nbytes = 0
        for unit in scan.units():
            self._budget.check()
            parts.append(_of_traces(unit, wanted) if many else unit.read())
            nbytes += parts[-1].nbytes
            # What is read is let go before the next call, so that only a larger answer takes more memory.
            self._budget.hold(max(0, nbytes - self._most_bytes))
            self._most_bytes = max(nbytes, self._most_bytes)
        return pa.Table.from_batches(parts, parts[0].schema if parts else scan.schema)

    def _scan(
        self, start_ns: int | None, end_ns: int | None, where: Predicate | None, columns: Sequence[str]
    ) -> Scan | None:
        """Returns None while nobody has sent a span yet."""
        try:
            request = ScanRequest(
                TOPIC, self._tenants, start_ns, end_ns, where, self._stored(columns), "newest first"
            )
            scan = self._scanner.scan(request)
        except TopicNotFound:
            return None
        self.scans.append(scan)
        return scan

    def _stored(self, columns: Sequence[str]) -> tuple[str, ...]:
        """Adds to times the columns of their last digits, where the topic has them."""
        if self._names is None:
            self._names = frozenset(self._scanner.scan(ScanRequest(TOPIC, self._tenants)).schema.names)
        rest = (name + NANOSECONDS for name in columns)
        return (*columns, *(name for name in rest if name in self._names))


def _of_traces(unit: Unit, ids: pa.Array) -> pa.RecordBatch:
    chosen = pc.is_in(unit.read(["trace_id"]).column(0).cast(pa.binary(16)), ids)
    if not chosen.true_count:
        return unit.read().slice(0, 0)
    return unit.read().filter(chosen)
