"""Selects log lines from a scan of the topic `logs`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.errors import TopicNotFound
from frazil.formats.otlp.logs import TOPIC
from frazil.formats.telemetry.scopes import TENANT
from frazil.query.logql.blocks import Selection
from frazil.query.logql.columns import Mask, column_of
from frazil.query.logql.source.label_rules import SERVICE_NAME, LabelRules
from frazil.query.logql.source.pushdown import predicate_of
from frazil.query.logql.source.rows_block import (
    BASE_COLUMNS,
    LINE_COLUMN,
    METADATA_COLUMNS,
    STREAM_COLUMNS,
    TENANT_LABEL,
    RowsBlock,
    Streams,
    nanoseconds,
    plain,
)
from frazil.query.logql.source.stream_matching import selected
from frazil.scan.interface import Scan, Scanner, ScanRequest, ScanStatistics
from frazil.scan.predicates.tree import And, Predicate


@dataclass(frozen=True)
class LogRows:
    """Is the source of queries over what is stored, for some tenants."""

    scanner: Scanner
    tenants: tuple[str, ...] | None
    rules: LabelRules = field(default_factory=LabelRules)
    where: Predicate | None = None
    """Only rows for which this is true are seen."""
    statistics: list[ScanStatistics] = field(default_factory=list, compare=False)
    """What each scan of the query cost."""

    def select(self, selection: Selection) -> Iterator[RowsBlock]:
        narrow = self.rules.service_is_column and _only_services(selection) and not self._of_several
        request = self._request(selection)
        scan = self.scan(request)
        if scan is None:
            return
        if selection.order != "none" or not narrow:
            for batch in scan.batches():
                yield from self._block(batch, selection)
            return
        columns = _columns(selection, (SERVICE_NAME,))
        for unit in scan.units():
            batch = unit.read(columns)
            if pc.any(pc.equal(pc.fill_null(plain(batch.column(SERVICE_NAME)), ""), "")).as_py():
                # What these rows are called depends on their other labels.
                yield from self._block(unit.read(request.columns), selection)
            else:
                yield from self._block(batch, selection, _services(batch))

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

    def _block(
        self, batch: pa.RecordBatch, selection: Selection, streams: Streams | None = None
    ) -> Iterator[RowsBlock]:
        if not len(batch):
            return
        times = nanoseconds(batch, "timestamp")
        block = RowsBlock(batch, self.rules, times, streams)
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


def _services(batch: pa.RecordBatch) -> Streams:
    services = column_of(batch.column(SERVICE_NAME))
    return [{SERVICE_NAME: name} for name in services.texts], services.codes
