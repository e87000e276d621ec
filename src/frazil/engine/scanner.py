"""Lets queries scan topics: the scanner belongs to the process, each of its scans to one query."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from frazil.config.model import Config
from frazil.config.sections.section import MIB
from frazil.engine.interface import QueryStatistics
from frazil.engine.tail_transfer import TailsOf
from frazil.lake.catalog.lake import Lake
from frazil.log.tail import TailView
from frazil.scan.interface import Scan, Scanner, ScanRequest, ScanStatistics, Unit
from frazil.scan.scanner import TopicScanner

if TYPE_CHECKING:
    import polars as pl

COUNTED = ("rows_read", "bytes_read", "units", "cache_hits", "cache_misses")
"""What scans and queries count alike."""


def open_scanner(config: Config, lake: Lake, tails_of: TailsOf) -> TopicScanner:
    def tails(topic: str) -> Mapping[int, TailView]:
        return tails_of([topic]).get(topic, {})

    return TopicScanner(config, lake, tails, memory_bytes=scanner_bytes(config))


def scanner_bytes(config: Config) -> int:
    """Returns how much of the memory of a process is for what scans remember: plans, footers, decoded rows."""
    return config.query.memory_mb * MIB // 2


class QueryScanner:
    """Makes scans that stop when their query must, and counts for it what they read."""

    def __init__(self, scanner: Scanner, check: Callable[[], None]) -> None:
        self._scanner = scanner
        self._check = check
        self._counts: list[_Count] = []

    def scan(self, request: ScanRequest) -> Scan:
        self._check()
        scan = self._scanner.scan(request)
        self._counts.append(_Count(scan.statistics))
        return _QueryScan(scan, self._check)

    def count(self, into: QueryStatistics) -> None:
        """Adds what was read since the last call."""
        for each in self._counts:
            each.add(into)


class _Count:
    def __init__(self, statistics: ScanStatistics) -> None:
        self._statistics = statistics
        self._seen = dict.fromkeys(COUNTED, 0)

    def add(self, into: QueryStatistics) -> None:
        into.complete &= self._statistics.complete
        for name, seen in self._seen.items():
            now = getattr(self._statistics, name)
            if now != seen:
                self._seen[name] = now
                setattr(into, name, getattr(into, name) + now - seen)


class _QueryScan:
    def __init__(self, scan: Scan, check: Callable[[], None]) -> None:
        self._scan = scan
        self._check = check
        self.statistics = scan.statistics

    @property
    def schema(self) -> pa.Schema:
        return self._scan.schema

    @property
    def offsets(self) -> dict[int, int]:
        return self._scan.offsets

    def batches(self) -> Iterator[pa.RecordBatch]:
        for batch in self._scan.batches():
            self._check()
            yield batch

    def table(self) -> pa.Table:
        batches = list(self.batches())
        # A table without columns has its rows in the batches only.
        return pa.Table.from_batches(batches, self.schema) if self.schema.names else self._scan.table()

    def lazy(self) -> pl.LazyFrame:
        return self._scan.lazy()

    def units(self) -> Iterator[Unit]:
        for unit in self._scan.units():
            self._check()
            yield _QueryUnit(unit, self._check)


class _QueryUnit:
    def __init__(self, unit: Unit, check: Callable[[], None]) -> None:
        self._unit = unit
        self._check = check

    @property
    def key(self) -> tuple[object, ...] | None:
        return self._unit.key

    @property
    def rows(self) -> int:
        return self._unit.rows

    @property
    def bounds_ns(self) -> tuple[int, int]:
        return self._unit.bounds_ns

    def read(self, columns: Sequence[str] | None = None, *, filtered: bool = True) -> pa.RecordBatch:
        self._check()
        return self._unit.read(columns, filtered=filtered)
