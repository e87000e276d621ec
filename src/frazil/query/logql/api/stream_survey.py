"""Finds out which streams there are, and how many lines and bytes each of them has.

What a unit of immutable rows has is remembered, so that asking again looks only at what is new.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from frazil.engine.interface import QueryContext
from frazil.formats.otlp.logs import TOPIC
from frazil.query.logql.api.parameters import Span
from frazil.query.logql.api.selectors import Matchers
from frazil.query.logql.blocks import Labels, Selection
from frazil.query.logql.metrics.matrix import SeriesLabels
from frazil.query.logql.source.log_rows import LogRows
from frazil.query.logql.source.rows_block import LINE_COLUMN, RowsBlock
from frazil.query.logql.source.stream_matching import selected
from frazil.scan.interface import ScanRequest, Unit

Counts = NDArray[np.int64]
_LABEL_BYTES = 200
"""A stream takes about so much memory for each of its labels."""


@dataclass(frozen=True)
class StreamCounts:
    """Has distinct streams, and for each of them its lines and the bytes in them."""

    streams: list[Labels]
    lines: Counts
    nbytes: Counts

    @property
    def memory(self) -> int:
        return _LABEL_BYTES * (2 + sum(map(len, self.streams)))


@dataclass(frozen=True)
class Survey:
    source: LogRows
    context: QueryContext
    sizes: bool = False
    """Whether the bytes of lines are counted."""

    def counts(self, span: Span, selectors: Iterable[Matchers] = ((),)) -> dict[SeriesLabels, tuple[int, int]]:
        """Returns lines and bytes of each stream that fits one of the selectors and has lines in the span."""
        wanted = list(selectors)
        found: dict[SeriesLabels, tuple[int, int]] = {}
        for counts in self._counts(span, wanted):
            before = len(found)
            for labels, lines, nbytes in zip(
                counts.streams, counts.lines.tolist(), counts.nbytes.tolist(), strict=True
            ):
                if not any(selected(matchers, labels) for matchers in wanted):
                    continue
                key = tuple(sorted(labels.items()))
                known = found.get(key, (0, 0))
                found[key] = known[0] + lines, known[1] + nbytes
            self.context.check()
            self.context.hold(_LABEL_BYTES * (len(found) - before))
        return found

    def bytes_at(self, span: Span, matchers: Matchers, edges: Counts) -> dict[SeriesLabels, Counts]:
        """Returns the bytes of each stream between every two edges, which begin and end with the span."""
        found: dict[SeriesLabels, Counts] = {}
        for unit in self._units(span, [matchers]):
            block = self.source.block(unit.read())
            inside = (block.times_ns >= span.start_ns) & (block.times_ns < span.end_ns)
            places = np.searchsorted(edges, block.times_ns[inside], side="right") - 1
            count, buckets = len(block.streams), len(edges) - 1
            cells = block.stream_codes[inside].astype(np.int64) * buckets + places
            used, numbers = np.unique(cells, return_inverse=True)
            nbytes = np.bincount(numbers, _lengths(block)[inside], minlength=len(used)).astype(np.int64)
            fitting = [selected(matchers, labels) for labels in block.streams]
            bounds = np.searchsorted(used, np.arange(count + 1) * buckets)
            for stream, labels in enumerate(block.streams):
                first, last = int(bounds[stream]), int(bounds[stream + 1])
                if first == last or not fitting[stream]:
                    continue
                key = tuple(sorted(labels.items()))
                if key not in found:
                    self.context.hold(8 * buckets)
                    found[key] = np.zeros(buckets, np.int64)
                found[key][used[first:last] - stream * buckets] += nbytes[first:last]
            self.context.check()
        return found

    def _counts(self, span: Span, selectors: list[Matchers]) -> Iterator[StreamCounts]:
        rules = self.source.rules
        for unit in self._units(span, selectors):
            first, last = unit.bounds_ns
            if unit.key is not None and span.start_ns <= first and last < span.end_ns:
                key = ("loki streams", unit.key, rules, self.sizes)
                yield self.context.cache.get(key, lambda unit=unit: self._whole(unit), lambda made: made.memory)  # type: ignore[misc]
            else:
                yield self._part(unit, span)

    def _units(self, span: Span, selectors: list[Matchers]) -> Iterator[Unit]:
        if span.start_ns >= span.end_ns:
            return
        matchers = selectors[0] if len(selectors) == 1 else ()
        request = ScanRequest(
            topic=TOPIC,
            tenants=self.source.tenants,
            start_ns=span.start_ns,
            end_ns=span.end_ns,
            where=self.source.predicate(Selection(span.start_ns, span.end_ns, matchers)),
            columns=self.source.stream_columns(LINE_COLUMN) if self.sizes else self.source.stream_columns(),
        )
        scan = self.source.scan(request)
        if scan is not None:
            yield from scan.units()

    def _whole(self, unit: Unit) -> StreamCounts:
        return self._counted(unit.read(filtered=False), None)

    def _part(self, unit: Unit, span: Span) -> StreamCounts:
        return self._counted(unit.read(), span)

    def _counted(self, batch: pa.RecordBatch, span: Span | None) -> StreamCounts:
        block = self.source.block(batch)
        codes = block.stream_codes
        lengths = _lengths(block) if self.sizes else np.zeros(len(batch), np.int64)
        if span is not None:
            inside = (block.times_ns >= span.start_ns) & (block.times_ns < span.end_ns)
            codes, lengths = codes[inside], lengths[inside]
        count = len(block.streams)
        lines = np.bincount(codes, minlength=count).astype(np.int64)
        nbytes = np.bincount(codes, lengths, minlength=count).astype(np.int64)
        there = np.flatnonzero(lines)
        return StreamCounts([block.streams[int(at)] for at in there], lines[there], nbytes[there])


def _lengths(block: RowsBlock) -> Counts:
    return np.asarray(pc.binary_length(block.lines), np.int64)
