"""Selects log lines from a scan of the topic `logs`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import numpy as np
import pyarrow as pa

from frazil.engine.interface import Cache
from frazil.errors import TopicNotFound
from frazil.formats.otlp.logs import TOPIC
from frazil.formats.telemetry.scopes import TENANT
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.query.logql.blocks import LogBlock, Selection
from frazil.query.logql.columns import Mask
from frazil.query.logql.source.label_rules import SERVICE_NAME, LabelRules
from frazil.query.logql.source.pushdown import predicate_of
from frazil.query.logql.source.row_places import Place, behind, place_of
from frazil.query.logql.source.rows_block import (
    BASE_COLUMNS,
    LINE_COLUMN,
    METADATA_COLUMNS,
    STREAM_COLUMNS,
    TENANT_LABEL,
    RowsBlock,
    Streams,
    nanoseconds,
)
from frazil.query.logql.source.stream_matching import selected
from frazil.query.logql.source.unit_columns import UnitBlock, UnitColumns
from frazil.scan.interface import Scan, Scanner, ScanRequest, ScanStatistics
from frazil.scan.predicates.tree import And, Predicate

T = TypeVar("T")

_GROWTH = 8
"""Each page has so many times the rows of the page before."""


class Nothing:
    """Is a cache that keeps nothing."""

    def get(self, key: Hashable, make: Callable[[], T], size: Callable[[T], int]) -> T:
        return make()


@dataclass(frozen=True)
class LogRows:
    """Is the source of queries over what is stored, for some tenants."""

    scanner: Scanner
    tenants: tuple[str, ...] | None
    rules: LabelRules = field(default_factory=LabelRules)
    where: Predicate | None = None
    """Only rows for which this is true are seen."""
    cache: Cache = field(default_factory=Nothing, compare=False)
    """Keeps what units of immutable rows have."""
    statistics: list[ScanStatistics] = field(default_factory=list, compare=False)
    """What each scan of the query cost."""

    def select(self, selection: Selection) -> Iterator[LogBlock]:
        request = self._request(selection)
        if selection.order != "none":
            for batch in self._pages(request, selection.first_rows):
                yield from self._block(batch, selection)
        elif self.where is None and not selection.line_filters and selection.labels_wanted is not None:
            yield from self._kept_blocks(request, selection, selection.labels_wanted)
        elif (scan := self.scan(request)) is not None:
            for batch in scan.batches():
                yield from self._block(batch, selection)

    def _pages(self, request: ScanRequest, first_rows: int | None) -> Iterator[pa.RecordBatch]:
        """Yields rows in order: few at first, which are often enough, and then more and more.

        Each page is a scan of its own, which begins behind the last row of the page before.
        """
        assert request.columns is not None
        request = replace(request, columns=(*request.columns, PARTITION, OFFSET), limit=first_rows)
        newest_first = request.order == "newest first"
        last: Place | None = None
        while (scan := self.scan(request)) is not None:
            found = 0
            for batch in scan.batches():
                found += len(batch)
                yield batch if last is None else behind(batch, last, newest_first=newest_first)
                if len(batch):
                    reached = place_of(batch, len(batch) - 1)
            if request.limit is None or found < request.limit:
                return
            last = reached
            request = replace(request, limit=request.limit * _GROWTH)
            # Rows of the very same moment come again, and are left out by their places.
            if newest_first:
                request = replace(request, end_ns=last.time_ns + 1)
            else:
                request = replace(request, start_ns=last.time_ns)

    def _kept_blocks(self, request: ScanRequest, selection: Selection, labels: frozenset[str]) -> Iterator[UnitBlock]:
        """Yields blocks of units whose columns are kept by codes."""
        scan = self.scan(request)
        if scan is None:
            return
        only_services = self.rules.service_is_column and _only_services(selection) and not self._of_several
        hidden = {SERVICE_NAME} if self.rules.discover_services else set()
        names = sorted(labels - hidden)
        for unit in scan.units():
            columns = UnitColumns(unit, self.rules, self.cache, self._stream_columns, only_services)
            streams = columns.streams()
            inside = _inside(columns, streams, selection)
            if inside.all():
                yield UnitBlock(columns, streams, names)
            elif inside.any():
                yield UnitBlock(columns, streams, names, np.flatnonzero(inside))

    def by_units(self, selection: Selection) -> Iterator[RowsBlock]:
        """Yields the wanted lines. With an order, units come in that order, but the lines in them in none."""
        request = self._request(selection)
        scan = self.scan(request)
        for unit in scan.units() if scan is not None else ():
            yield from self._block(unit.read(request.columns), selection)

    def _request(self, selection: Selection) -> ScanRequest:
        return ScanRequest(
            topic=TOPIC,
            tenants=self.tenants,
            start_ns=selection.start_ns,
            end_ns=selection.end_ns,
            where=self.predicate(selection),
            columns=_columns(selection, self._stream_columns),
            order=selection.order,
        )

    def scan(self, request: ScanRequest) -> Scan | None:
        """Returns the scan, or None if nobody has sent a line yet."""
        try:
            scan = self.scanner.scan(request)
        except TopicNotFound:
            return None
        self.statistics.append(scan.statistics)
        return scan

    def stream_columns(self, *others: str) -> tuple[str, ...]:
        """Returns the columns that tell the stream of a row, its time, and these others."""
        return (*BASE_COLUMNS, *self._stream_columns, *others)

    @property
    def _stream_columns(self) -> tuple[str, ...]:
        return (*STREAM_COLUMNS, TENANT) if self._of_several else STREAM_COLUMNS

    @property
    def _of_several(self) -> bool:
        """Returns whether rows of several tenants are seen, so that each stream needs the name of its own."""
        return self.tenants is not None and len(self.tenants) > 1

    @property
    def is_complete(self) -> bool:
        """Returns whether the scans until now have seen the newest rows too."""
        return all(each.complete for each in self.statistics)

    def predicate(self, selection: Selection) -> Predicate | None:
        """Returns what is true for all rows that may be wanted."""
        if self._of_several:
            stored = tuple(matcher for matcher in selection.matchers if matcher.name != TENANT_LABEL)
            selection = replace(selection, matchers=stored)
        return _both(predicate_of(selection, self.rules), self.where)

    def block(self, batch: pa.RecordBatch) -> RowsBlock:
        """Makes a block of rows that have at least these columns."""
        return RowsBlock(batch, self.rules, nanoseconds(batch, "timestamp"))

    def _block(self, batch: pa.RecordBatch, selection: Selection) -> Iterator[RowsBlock]:
        if not len(batch):
            return
        times = nanoseconds(batch, "timestamp")
        block = RowsBlock(batch, self.rules, times)
        fitting = np.array([selected(selection.matchers, labels) for labels in block.streams], np.bool_)
        inside: Mask = (times >= selection.start_ns) & (times < selection.end_ns) & fitting[block.stream_codes]
        found = block.take(inside)
        if found.rows:
            yield found


def _both(one: Predicate | None, other: Predicate | None) -> Predicate | None:
    if one is None or other is None:
        return other if one is None else one
    return And((one, other))


def _only_services(selection: Selection) -> bool:
    """Returns whether the name of the service is all that is looked at of the labels."""
    names = {matcher.name for matcher in selection.matchers}
    return selection.labels_wanted is not None and selection.labels_wanted | names <= {SERVICE_NAME}


def _columns(selection: Selection, of_streams: Sequence[str]) -> tuple[str, ...]:
    columns = [*BASE_COLUMNS, *of_streams]
    if selection.lines_wanted:
        columns.append(LINE_COLUMN)
    if selection.labels_wanted is None or selection.labels_wanted - {SERVICE_NAME}:
        columns += METADATA_COLUMNS
    return tuple(columns)


def _inside(columns: UnitColumns, streams: Streams, selection: Selection) -> Mask:
    """Returns which rows of the unit have a wanted stream and time."""
    labels, codes = streams
    fitting = np.array([selected(selection.matchers, each) for each in labels], np.bool_)
    found: Mask = np.ones(len(codes), np.bool_) if fitting.all() else fitting[codes]
    first, last = columns.unit.bounds_ns
    if (selection.start_ns <= first and last < selection.end_ns) or not found.any():
        return found
    times = columns.times_ns()
    return np.asarray(found & (times >= selection.start_ns) & (times < selection.end_ns))
