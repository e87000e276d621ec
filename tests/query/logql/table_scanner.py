"""Scans a table in memory, row by row: a plain statement of what a scan has to give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.scan.interface import ScanRequest, ScanStatistics, Unit
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

BATCH_ROWS = 97


def holds(predicate: Predicate, row: Mapping[str, Any]) -> bool | None:
    """Returns whether the predicate is true for a row, or None if that is unknown."""
    match predicate:
        case And(children):
            found = [holds(child, row) for child in children]
            return False if False in found else None if None in found else True
        case Or(children):
            found = [holds(child, row) for child in children]
            return True if True in found else None if None in found else False
        case Not(child):
            truth = holds(child, row)
            return None if truth is None else not truth
        case IsNull(term):
            return _value(term, row) is None
    value = _value(predicate.term, row)
    if value is None:
        return None
    match predicate:
        case Comparison(_, operator, other):
            return _compared(operator, value, other)
        case In(_, values):
            return value in values
        case StartsWith(_, prefix):
            return str(value).startswith(prefix)
        case Contains(_, text, ignore_case):
            return text.lower() in value.lower() if ignore_case else text in value
        case Matches(_, pattern, anchored):
            whole = f"^(?:{pattern})$" if anchored else pattern
            return bool(pc.match_substring_regex(pa.array([value]), whole)[0].as_py())
    raise AssertionError(predicate)


def _compared(operator: str, left: Any, right: Any) -> bool:
    match operator:
        case "==":
            return bool(left == right)
        case "!=":
            return bool(left != right)
        case "<":
            return bool(left < right)
        case "<=":
            return bool(left <= right)
        case ">":
            return bool(left > right)
    return bool(left >= right)


def _value(term: Term, row: Mapping[str, Any]) -> Any:
    if isinstance(term, Column):
        return row[term.name]
    return dict(row[term.column] or ()).get(term.key)


class TableUnit:
    """Is some rows of a tenant, which have a key as if they were those of a file."""

    def __init__(self, rows: pa.Table, request: ScanRequest, key: tuple[object, ...]) -> None:
        self._rows = rows
        self._request = request
        self.key = key

    @property
    def rows(self) -> int:
        return len(self._rows)

    @property
    def bounds_ns(self) -> tuple[int, int]:
        times = _nanoseconds(self._rows)
        return min(times), max(times)

    def read(self, columns: Sequence[str] | None = None, *, filtered: bool = True) -> pa.RecordBatch:
        found = TableScan(self._rows, self._request).whole_rows() if filtered else self._rows
        wanted = self._request.columns if columns is None else columns
        rows = found if wanted is None else found.select(wanted)
        return pa.RecordBatch.from_struct_array(rows.to_struct_array().combine_chunks())


class TableScan:
    def __init__(self, table: pa.Table, request: ScanRequest) -> None:
        self._table = table
        self._request = request
        self.statistics = ScanStatistics()

    @property
    def schema(self) -> pa.Schema:
        return self.table().schema

    @property
    def offsets(self) -> dict[int, int]:
        return {}

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self.table().to_batches(max_chunksize=BATCH_ROWS)

    def table(self) -> pa.Table:
        found = self.whole_rows()
        return found if self._request.columns is None else found.select(self._request.columns).combine_chunks()

    def _visible(self) -> pa.Table:
        tenants = self._request.tenants
        return (
            self._table
            if tenants is None
            else self._table.filter(pc.is_in(self._table["tenant_id"], pa.array(tenants)))
        )

    def whole_rows(self) -> pa.Table:
        found, request = self._visible(), self._request
        names = [name for name in found.schema.names if name != "timestamp"]
        times = _nanoseconds(found)
        rows = found.select(names).to_pylist()
        chosen = [
            number
            for number, (row, time_ns) in enumerate(zip(rows, times, strict=True))
            if (request.start_ns is None or time_ns >= request.start_ns)
            and (request.end_ns is None or time_ns < request.end_ns)
            and (request.where is None or holds(request.where, row))
        ]
        if request.order != "none":
            chosen.sort(key=lambda number: (times[number], rows[number][PARTITION], rows[number][OFFSET]))
        if request.order == "newest first":
            chosen.reverse()
        return found.take(pa.array(chosen[: request.limit], pa.int64())).combine_chunks()

    def lazy(self) -> Any:
        raise NotImplementedError

    def units(self) -> Iterator[Unit]:
        visible = self._visible()
        for start in range(0, len(visible), BATCH_ROWS):
            key = (id(self._table), self._request.tenants, start)
            yield TableUnit(visible.slice(start, BATCH_ROWS), replace(self._request, limit=None), key)


def _nanoseconds(table: pa.Table) -> list[int]:
    whole = table["timestamp"].cast(pa.int64()).to_pylist()
    if table.schema.field("timestamp").type.unit == "ns":
        return list(whole)
    return [1000 * time + more for time, more in zip(whole, table["timestamp_ns"].to_pylist(), strict=True)]


class TableScanner:
    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def scan(self, request: ScanRequest) -> TableScan:
        return TableScan(self._table, request)
