"""Evaluates metric queries at the steps of a query."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frazil.errors import QueryError
from frazil.query.logql.blocks import LogSource
from frazil.query.logql.frame import Frame
from frazil.query.logql.guards import Guard
from frazil.query.logql.metrics.binary_operations import combine, with_number
from frazil.query.logql.metrics.label_replacement import replace_label
from frazil.query.logql.metrics.matrix import (
    Matrix,
    SeriesLabels,
    Steps,
    empty_matrix,
    one_series,
)
from frazil.query.logql.metrics.range_functions import RANGE_FUNCTIONS, WindowSamples
from frazil.query.logql.metrics.range_reader import RangeReader, line_bytes
from frazil.query.logql.metrics.vector_aggregations import aggregate
from frazil.query.logql.metrics.windows import CountGrid, SampleLog, Windows, seconds
from frazil.query.logql.parse.metric_tree import (
    BinaryOperation,
    Grouping,
    LabelReplace,
    MetricQuery,
    NumberLiteral,
    RangeAggregation,
    Vector,
    VectorAggregation,
)
from frazil.query.logql.plan.needs import needs_of_range

_OF_BYTES = frozenset(("bytes_over_time", "bytes_rate"))
_WINDOW_BYTES = 40
"""What each window of a series takes: where it begins and ends, its value, and whether it has one."""
_PER_SECOND = frozenset(("rate", "bytes_rate"))
_GROUPED_WHILE_READ = frozenset(("count_over_time", "rate", "bytes_over_time", "bytes_rate", "sum_over_time"))
"""The sum of these over series is the same as these over the lines of all series."""


@dataclass(frozen=True)
class Evaluation:
    source: LogSource
    steps: Steps
    guard: Guard
    instant: bool

    def matrix(self, node: MetricQuery) -> Matrix:
        self.guard.check()
        match node:
            case NumberLiteral(value) | Vector(value):
                return one_series(value, len(self.steps))
            case RangeAggregation():
                return self._range(node, node.grouping)
            case VectorAggregation():
                return self._aggregated(node)
            case BinaryOperation():
                return self._combined(node)
            case LabelReplace():
                return replace_label(node, self.matrix(node.expression))

    def _combined(self, node: BinaryOperation) -> Matrix:
        if isinstance(node.left, NumberLiteral):
            return with_number(node, self.matrix(node.right), node.left.value, number_is_left=True)
        if isinstance(node.right, NumberLiteral):
            return with_number(node, self.matrix(node.left), node.right.value, number_is_left=False)
        return combine(node, self.matrix(node.left), self.matrix(node.right))

    def _aggregated(self, node: VectorAggregation) -> Matrix:
        if node.operation == "approx_topk" and not self.instant:
            raise QueryError("count min sketches are only supported on instant queries")
        inner = node.expression
        if (
            node.operation == "sum"
            and isinstance(inner, RangeAggregation)
            and inner.operation in _GROUPED_WHILE_READ
            and inner.grouping is None
        ):
            return aggregate(node, self._range(inner, node.grouping or Grouping(())))
        return aggregate(node, self.matrix(inner))

    def _range(self, node: RangeAggregation, grouping: Grouping | None) -> Matrix:
        log_range = node.range
        windows = Windows(self.steps - log_range.offset_ns, log_range.interval_ns)
        absent = node.operation == "absent_over_time"
        needs = needs_of_range(log_range, grouping, reads_lines=node.operation in _OF_BYTES, needs_no_labels=absent)
        reader = RangeReader(log_range, Grouping(()) if absent else grouping, needs, windows)
        if absent:
            return self._absent(node, reader)
        if log_range.unwrap is None:
            return self._counted(node, reader)
        samples = SampleLog()

        def take(
            series: NDArray[np.int64], times: NDArray[np.int64], _: Frame, values: NDArray[np.float64] | None
        ) -> int:
            return samples.add(series, times, np.zeros(len(series)) if values is None else values)

        labels = reader.read(self.source, self.guard, take)
        if not labels:
            return empty_matrix(len(self.steps))
        self._hold_windows(len(labels))
        ordered = samples.sorted()
        starts, stops = ordered.bounds(len(labels), windows)
        given = WindowSamples(ordered, windows, starts, stops, node.parameter)
        with np.errstate(all="ignore"):
            values = RANGE_FUNCTIONS[node.operation](given)
        return Matrix(labels, values, given.filled)

    def _counted(self, node: RangeAggregation, reader: RangeReader) -> Matrix:
        """Adds up lines or their bytes."""
        labels, sums, counts = self._totals(node, reader)
        if not labels:
            return empty_matrix(len(self.steps))
        values = (sums if node.operation in _OF_BYTES else counts).astype(np.float64)
        if node.operation in _PER_SECOND:
            with np.errstate(all="ignore"):
                values = values / seconds(reader.windows.length_ns)
        return Matrix(labels, values, counts > 0)

    def _totals(
        self, node: RangeAggregation, reader: RangeReader
    ) -> tuple[list[SeriesLabels], NDArray[np.int64], NDArray[np.int64]]:
        windows = reader.windows
        of_bytes = node.operation in _OF_BYTES
        if CountGrid.suits(windows):
            grid = CountGrid(windows)
            labels = reader.read(
                self.source,
                self.guard,
                lambda series, times, frame, _: grid.add(series, times, line_bytes(frame) if of_bytes else None),
            )
            self._hold_windows(len(labels))
            return (labels, *grid.totals(len(labels)))
        samples = SampleLog()
        labels = reader.read(
            self.source,
            self.guard,
            lambda series, times, frame, _: samples.add(
                series, times, line_bytes(frame).astype(np.float64) if of_bytes else np.zeros(len(series))
            ),
        )
        self._hold_windows(len(labels))
        ordered = samples.sorted()
        starts, stops = ordered.bounds(len(labels), windows)
        running = np.concatenate([[0], np.cumsum(ordered.values.astype(np.int64))])
        return labels, running[stops] - running[starts], stops - starts

    def _hold_windows(self, series: int) -> None:
        """Counts the memory of what is worked out for each window, before it is."""
        self.guard.hold(series * len(self.steps) * _WINDOW_BYTES)

    def _absent(self, node: RangeAggregation, reader: RangeReader) -> Matrix:
        labels, _, counts = self._totals(node, reader)
        absent = counts.sum(axis=0) == 0 if labels else np.ones(len(self.steps), np.bool_)
        return Matrix([_absent_labels(node)], np.ones((1, len(self.steps))), absent[np.newaxis, :])


def _absent_labels(node: RangeAggregation) -> SeriesLabels:
    """Returns the labels that the selector gives a fixed value."""
    matchers = node.range.query.selector.matchers
    names = [matcher.name for matcher in matchers]
    fixed = [
        (matcher.name, matcher.value)
        for matcher in matchers
        if matcher.operator == "=" and names.count(matcher.name) == 1 and matcher.value
    ]
    return tuple(sorted(fixed))
