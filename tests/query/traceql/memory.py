"""Has spans in memory as scans would return them: in units, some of them filtered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.query.traceql.engine.columns import nanoseconds
from frazil.query.traceql.engine.source import SpanBatch
from frazil.scan.predicates.tree import Predicate


class NoBudget:
    def check(self) -> None:
        pass

    def hold(self, nbytes: int) -> None:
        pass


class MemorySpans:
    """Returns units of a few spans, in the order of the latest span of each. It leaves predicates to who asks."""

    def __init__(self, table: pa.Table, unit_rows: int = 4) -> None:
        self._table = table
        self._unit_rows = unit_rows

    def batches(
        self, start_ns: int, end_ns: int, where: Predicate | None, columns: Sequence[str]
    ) -> Iterator[SpanBatch]:
        table = self._between(start_ns, end_ns).select(list(columns))
        units = [table.slice(at, self._unit_rows) for at in range(0, len(table), self._unit_rows)]
        found = [SpanBatch(partial(pa.table, unit), int(nanoseconds(unit, "timestamp").max())) for unit in units]
        yield from sorted(found, key=lambda batch: -batch.latest_ns)

    def traces(
        self, ids: Sequence[bytes], start_ns: int | None, end_ns: int | None, columns: Sequence[str]
    ) -> pa.Table:
        table = self._between(start_ns, end_ns)
        chosen = pc.is_in(table["trace_id"].cast(pa.binary()), pa.array(list(ids), pa.binary()))
        return table.filter(chosen).select(list(columns))

    def _between(self, start_ns: int | None, end_ns: int | None) -> pa.Table:
        times = nanoseconds(self._table, "timestamp")
        kept = np.ones(len(times), bool)
        if start_ns is not None:
            kept &= times >= start_ns
        if end_ns is not None:
            kept &= times < end_ns
        return self._table.filter(pa.array(kept))
