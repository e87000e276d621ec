"""Scans rows in memory as the real scanner does, with predicates that are judged row by row in plain Python."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from frazil.query.traceql.engine.columns import nanoseconds
from frazil.scan.interface import Scan, ScanRequest, ScanStatistics, Unit
from frazil.scan.predicates.tree import (
    And,
    Column,
    Comparison,
    Contains,
    In,
    IsNull,
    Matches,
    Not,
    Or,
    Predicate,
    StartsWith,
    Term,
)

COMPARE = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def judge(predicate: Predicate, row: dict[str, Any]) -> bool | None:
    """Returns None for unknown."""
    match predicate:
        case Not():
            inner = judge(predicate.child, row)
            return None if inner is None else not inner
        case And() | Or():
            found = [judge(child, row) for child in predicate.children]
            decisive = isinstance(predicate, Or)
            if decisive in found:
                return decisive
            return None if None in found else not decisive
    value = _value(predicate.term, row)
    match predicate:
        case IsNull():
            return value is None
        case _ if value is None:
            return None
        case Comparison():
            return bool(COMPARE[predicate.operator](value, predicate.value))
        case In():
            return value in predicate.values
        case StartsWith():
            return str(value).startswith(predicate.prefix)
        case Contains():
            return predicate.text in value
        case Matches():
            found_text = re.fullmatch if predicate.anchored else re.search
            return found_text(predicate.pattern, value) is not None


def _value(term: Term, row: dict[str, Any]) -> Any:
    if isinstance(term, Column):
        return row[term.name]
    return dict(row[term.column] or []).get(term.key)


class MemoryUnit:
    key = None

    def __init__(self, table: pa.Table, columns: tuple[str, ...] | None) -> None:
        self._table = table
        self._columns = columns
        times = nanoseconds(table, "timestamp")
        self.bounds_ns = (int(times.min()), int(times.max()))
        self.rows = len(table)

    def read(self, columns: Sequence[str] | None = None, *, filtered: bool = True) -> pa.RecordBatch:
        chosen = columns or self._columns
        table = self._table.select(list(chosen)) if chosen else self._table
        return table.combine_chunks().to_batches()[0]


class MemoryScan:
    def __init__(self, table: pa.Table, request: ScanRequest, unit_rows: int) -> None:
        self.statistics = ScanStatistics()
        self.offsets: dict[int, int] = {}
        self.schema = table.select(list(request.columns)).schema if request.columns else table.schema
        self._table = table
        self._request = request
        self._unit_rows = unit_rows

    def units(self) -> Iterator[Unit]:
        request, table = self._request, self._table
        times = nanoseconds(table, "timestamp")
        kept = np.ones(len(table), bool)
        if request.tenants is not None:
            kept &= pc.is_in(table["tenant_id"], pa.array(request.tenants)).to_numpy()
        if request.start_ns is not None:
            kept &= times >= request.start_ns
        if request.end_ns is not None:
            kept &= times < request.end_ns
        if request.where is not None:
            kept &= [judge(request.where, row) is True for row in table.to_pylist()]
        self.statistics.bytes_read = table.nbytes
        table = table.filter(pa.array(kept))
        slices = [table.slice(at, self._unit_rows) for at in range(0, len(table), self._unit_rows)]
        units = [MemoryUnit(each, request.columns) for each in slices]
        units.sort(key=lambda unit: -unit.bounds_ns[1])
        # Each unit stands for a file.
        most = len(units) if request.max_files is None else request.max_files
        self.statistics.files_unread = max(0, len(units) - most)
        yield from units[:most]

    def batches(self) -> Iterator[pa.RecordBatch]:
        for unit in self.units():
            yield unit.read()

    def table(self) -> pa.Table:
        return pa.Table.from_batches(list(self.batches()), self.schema)

    def lazy(self) -> pl.LazyFrame:
        raise NotImplementedError


class MemoryScanner:
    def __init__(self, table: pa.Table, unit_rows: int = 3) -> None:
        self.table = table
        self.unit_rows = unit_rows

    def scan(self, request: ScanRequest) -> Scan:
        return MemoryScan(self.table, request, self.unit_rows)
