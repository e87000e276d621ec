"""Reads spans with scans: from table and log at one cut each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import NamedTuple

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


class Lookup(NamedTuple):
    table: pa.Table
    too_large: bool
    """Whether there are more spans than the bytes that were allowed."""
    files_unread: int
    """The number of files that may have more spans, and were not looked into."""


class ScannedSpans:
    """Is the source of the spans that some tenants may see."""

    def __init__(self, scanner: Scanner, tenants: tuple[str, ...], budget: Budget) -> None:
        self._scanner = scanner
        self._tenants = tenants
        self._budget = budget
        self._most_bytes = 0
        self.scans: list[Scan] = []
        """All scans that were made, for their statistics."""

    def batches(
        self, start_ns: int, end_ns: int, where: Predicate | None, columns: Sequence[str]
    ) -> Iterator[SpanBatch]:
        scan = self._scan(start_ns, end_ns, where)
        if scan is None:
            return
        names = _stored(columns, scan)
        for unit in scan.units():
            self._budget.check()
            first, last = unit.bounds_ns
            whole = where is None and start_ns <= first and last < end_ns
            key = (self._tenants, unit.key) if whole and unit.key is not None else None
            yield SpanBatch(partial(_spans, unit, names), last, key)

    def traces(
        self, ids: Sequence[bytes], start_ns: int | None, end_ns: int | None, columns: Sequence[str]
    ) -> pa.Table:
        return self.lookup(ids, start_ns, end_ns, columns).table

    def lookup(
        self,
        ids: Sequence[bytes],
        start_ns: int | None,
        end_ns: int | None,
        columns: Sequence[str],
        *,
        most_bytes: int | None = None,
        most_files: int | None = None,
    ) -> Lookup:
        """Returns the newest spans of some traces: all that start in this time, unless they or their files are too
        many."""
        many = len(ids) > MANY
        where = None if many else In(Column("trace_id"), frozenset(ids))
        scan = self._scan(start_ns, end_ns, where, most_files)
        if scan is None:
            return Lookup(pa.schema([SCHEMA.field(name) for name in columns]).empty_table(), False, 0)
        names = _stored(columns, scan)
        wanted = pa.array(ids, pa.binary(16))
        parts: list[pa.RecordBatch] = []
        nbytes = 0
        too_large = False
        for unit in scan.units():
            self._budget.check()
            part = _of_traces(unit, names, wanted) if many else unit.read(names)
            if not len(part):
                continue
            if most_bytes is not None and nbytes + part.nbytes > most_bytes:
                too_large = True
                part = part.slice(0, len(part) * (most_bytes - nbytes) // part.nbytes)
            parts.append(part)
            nbytes += part.nbytes
            # What is read is let go before the next call, so that only a larger answer takes more memory.
            self._budget.hold(max(0, nbytes - self._most_bytes))
            self._most_bytes = max(nbytes, self._most_bytes)
            if too_large:
                break
        kinds = pa.schema([scan.schema.field(name) for name in names])
        table = pa.Table.from_batches(parts) if parts else kinds.empty_table()
        return Lookup(table, too_large, scan.statistics.files_unread)

    def _scan(
        self, start_ns: int | None, end_ns: int | None, where: Predicate | None, most_files: int | None = None
    ) -> Scan | None:
        """Returns None while nobody has sent a span yet."""
        try:
            scan = self._scanner.scan(
                ScanRequest(TOPIC, self._tenants, start_ns, end_ns, where, order="newest first", max_files=most_files)
            )
        except TopicNotFound:
            return None
        self.scans.append(scan)
        return scan


def _stored(columns: Sequence[str], scan: Scan) -> list[str]:
    """Adds to times the columns of their last digits, where the topic has them."""
    known = set(scan.schema.names)
    return [*columns, *(rest for name in columns if (rest := name + NANOSECONDS) in known)]


def _spans(unit: Unit, names: Sequence[str]) -> pa.Table:
    return pa.Table.from_batches([unit.read(names)])


def _of_traces(unit: Unit, names: Sequence[str], ids: pa.Array) -> pa.RecordBatch:
    chosen = pc.is_in(unit.read(["trace_id"]).column(0).cast(pa.binary(16)), ids)
    if not chosen.true_count:
        return unit.read(["trace_id"]).slice(0, 0)
    return unit.read(names).filter(chosen)
