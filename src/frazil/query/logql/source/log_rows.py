"""Selects log lines from a scan of the topic `logs`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from frazil.formats.otlp.logs import TOPIC
from frazil.query.logql.blocks import Selection
from frazil.query.logql.columns import Mask
from frazil.query.logql.memory_source import selected
from frazil.query.logql.source.label_rules import SERVICE_NAME, LabelRules
from frazil.query.logql.source.pushdown import predicate_of
from frazil.query.logql.source.rows_block import (
    BASE_COLUMNS,
    LINE_COLUMN,
    METADATA_COLUMNS,
    STREAM_COLUMNS,
    RowsBlock,
    nanoseconds,
)
from frazil.scan.interface import Scanner, ScanRequest


@dataclass(frozen=True)
class LogRows:
    """Is the source of queries over what is stored, for some tenants."""

    scanner: Scanner
    tenants: tuple[str, ...] | None
    rules: LabelRules = field(default_factory=LabelRules)

    def select(self, selection: Selection) -> Iterator[RowsBlock]:
        request = ScanRequest(
            topic=TOPIC,
            tenants=self.tenants,
            start_ns=selection.start_ns,
            end_ns=selection.end_ns,
            where=predicate_of(selection, self.rules),
            columns=self._columns(selection),
            order=selection.order,
        )
        for batch in self.scanner.scan(request).batches():
            block = self._block(batch, selection)
            if block.rows:
                yield block

    def _columns(self, selection: Selection) -> tuple[str, ...]:
        columns = [*BASE_COLUMNS, *STREAM_COLUMNS]
        if selection.lines_wanted:
            columns.append(LINE_COLUMN)
        wanted = selection.labels_wanted
        if wanted is None or wanted - {SERVICE_NAME}:
            columns += METADATA_COLUMNS
        return tuple(columns)

    def _block(self, batch: pa.RecordBatch, selection: Selection) -> RowsBlock:
        times = nanoseconds(batch, "timestamp")
        block = RowsBlock(batch, self.rules, times)
        fitting = np.array([selected(selection.matchers, labels) for labels in block.streams], np.bool_)
        inside: Mask = (times >= selection.start_ns) & (times < selection.end_ns)
        return block.take(inside & fitting[block.stream_codes] if len(fitting) else np.zeros(len(times), np.bool_))
