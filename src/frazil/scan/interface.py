"""Defines what a scan is asked for and what it gives: the rows of a topic at one cut, from table and log."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

import pyarrow as pa

from frazil.scan.predicates.tree import Predicate

if TYPE_CHECKING:
    import polars as pl

UNIT_ROWS = 65_536
"""A unit has at most this many rows: a query can be stopped, and its memory be bounded, between two units."""

Order = Literal["none", "oldest first", "newest first"]
"""Rows have the order of their time with nanoseconds, then of partition and offset; newest first is its reverse."""


@dataclass(frozen=True)
class ScanRequest:
    """Names the rows that are wanted."""

    topic: str
    tenants: tuple[str, ...] | None
    """The rows of these tenants are seen. None sees all rows: for topics without tenants, and for the operator."""
    start_ns: int | None = None
    """The first moment that is wanted, in nanoseconds since 1970, by the topic's column of time."""
    end_ns: int | None = None
    """The first moment that is not wanted any more."""
    where: Predicate | None = None
    columns: tuple[str, ...] | None = None
    """These columns, in this order; None stands for all."""
    order: Order = "none"
    limit: int | None = None
    max_files: int | None = None
    """Of the files of the table that may have wanted rows, no more than these are read: with the order "newest first"
    those that end last, else those that begin first. The statistics say how many are left unread."""


@dataclass
class ScanStatistics:
    """Counts what a scan read, and what it could leave out."""

    files: int = 0
    files_skipped: int = 0
    files_unread: int = 0
    """Files that may have wanted rows, and were left out because of `max_files`. Rows may be missing then."""
    units: int = 0
    rows_read: int = 0
    rows_out: int = 0
    bytes_read: int = 0
    log_rows: int = 0
    """Rows that came from the log and not from the table."""
    cache_hits: int = 0
    cache_misses: int = 0
    complete: bool = True
    """False if the tail of the log is on another machine, so that the rows end where the log is sealed."""


class Unit(Protocol):
    """Is a piece of a scan that can be read by itself, any number of times, by any thread."""

    @property
    def key(self) -> tuple[object, ...] | None:
        """Returns the name of the immutable rows behind the unit, for caches; None if they are not immutable."""

    @property
    def rows(self) -> int:
        """Returns the number of rows before the predicate is applied."""

    @property
    def bounds_ns(self) -> tuple[int, int]:
        """Returns bounds of the times in it: no row is earlier than the first or later than the second."""

    def read(self, columns: Sequence[str] | None = None, *, filtered: bool = True) -> pa.RecordBatch:
        """Returns the rows that are wanted; without `filtered` all rows of the unit that the tenants may see."""


class Scan(Protocol):
    """Has the rows of one topic at one cut."""

    statistics: ScanStatistics

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def offsets(self) -> dict[int, int]:
        """Returns the cut: by partition, exactly the rows below these log offsets are seen."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yields the rows in the order that was asked for, up to the limit."""

    def table(self) -> pa.Table: ...

    def lazy(self) -> pl.LazyFrame: ...

    def units(self) -> Iterator[Unit]:
        """Yields all units that may have wanted rows. With an order, they are sorted by their bounds.

        The limit is not applied: whoever reads units stops when no later unit can matter.
        """


class Scanner(Protocol):
    """Makes scans, and remembers plans, footers and decoded rows between them. Any thread may use it."""

    def scan(self, request: ScanRequest) -> Scan: ...
