"""Reads the lines of a range, and makes samples of series of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from frazil.errors import QueryError
from frazil.query.logql.blocks import LogBlock, LogSource, Selection
from frazil.query.logql.columns import ABSENT, Column, Mask, combined, distinct_codes, from_texts, used_codes
from frazil.query.logql.frame import ERROR, Frame
from frazil.query.logql.go_numbers import parse_bytes, parse_float, parse_go_duration
from frazil.query.logql.guards import Guard
from frazil.query.logql.metrics.matrix import SeriesLabels, printed_labels
from frazil.query.logql.metrics.windows import Windows
from frazil.query.logql.parse.metric_tree import Grouping, LogRange, Unwrap
from frazil.query.logql.plan.needs import Needs
from frazil.query.logql.stages.findings import Wanted
from frazil.query.logql.stages.label_filters import filter_labels
from frazil.query.logql.stages.pipeline import Pipeline, leading_filters, reordered
from frazil.scan.interface import UNIT_ROWS

EXTRACTION_ERROR = "SampleExtractionErr"

_ROWS_AT_ONCE = 16_384
"""Of lines, so many are worked on at a time. Codes of labels cost far less."""
_SERIES_BYTES = 500
"""What the labels of a series take, about."""

_CONVERSIONS: dict[str, Callable[[str], float]] = {
    "": parse_float,
    "bytes": parse_bytes,
    "duration": lambda text: parse_go_duration(text) / 1e9,
    "duration_seconds": lambda text: parse_go_duration(text) / 1e9,
}

Take = Callable[[NDArray[np.int64], NDArray[np.int64], Frame, NDArray[np.float64] | None], int]
"""Gets series, times, the frame and unwrapped values, and returns the bytes that it keeps of them."""


@dataclass(frozen=True)
class RangeReader:
    log_range: LogRange
    grouping: Grouping | None
    needs: Needs
    windows: Windows

    def read(self, source: LogSource, guard: Guard, take: Take) -> list[SeriesLabels]:
        """Hands all samples to `take`, and returns the labels of the series that it numbers."""
        query = self.log_range.query
        stages = reordered(self.needs.stages)
        pipeline = Pipeline(stages, Wanted(self.needs.parsed))
        selection = Selection(
            start_ns=self.windows.first_ns,
            end_ns=self.windows.last_ns + 1,
            matchers=query.selector.matchers,
            line_filters=leading_filters(stages),
            lines_wanted=self.needs.lines,
            labels_wanted=self.needs.labels,
        )
        numbers: dict[SeriesLabels, int] = {}
        for frame in _frames(source.select(selection), _ROWS_AT_ONCE if self.needs.lines else UNIT_ROWS):
            guard.check()
            frame.filter(self.windows.covers(frame.times_ns))
            pipeline.run(frame)
            values = self._unwrapped(frame)
            if not frame.rows:
                continue
            if not self.needs.counts_errors:
                _refuse_errors(frame)
            known = len(numbers)
            series = self._numbered(frame, numbers)
            guard.hold((len(numbers) - known) * _SERIES_BYTES)
            guard.hold(take(series, frame.times_ns, frame, values))
        return list(numbers)

    def _unwrapped(self, frame: Frame) -> NDArray[np.float64] | None:
        unwrap = self.log_range.unwrap
        if unwrap is None or not frame.rows:
            return None
        column = frame.label(unwrap.label)
        frame.filter(column.by_text(bool, absent=False))
        values = _converted(unwrap, frame)
        for stage in unwrap.filters:
            values = values[filter_labels(stage, frame)]
        return values

    def _numbered(self, frame: Frame, numbers: dict[SeriesLabels, int]) -> NDArray[np.int64]:
        """Returns for each row the number of its series, and adds new ones."""
        grouping = self.grouping
        if grouping is not None and not grouping.without:
            columns = {name: frame.label(name) for name in sorted(set(grouping.labels))}
        else:
            left_out = {self.log_range.unwrap.label} if self.log_range.unwrap else set()
            if grouping is not None:
                left_out |= set(grouping.labels)
            columns = {name: frame.label(name) for name in frame.all_names() if name not in left_out}
        if len(columns) == 1:
            ((name, column),) = columns.items()
            codes, values = distinct_codes(column.codes)
            by_value = [() if code == ABSENT else ((name, column.texts[code]),) for code in values.tolist()]
            return np.array([numbers.setdefault(each, len(numbers)) for each in by_value], np.int64)[codes]
        codes, firsts = combined([column.codes for column in columns.values()], frame.rows)
        found = np.zeros(len(firsts), np.int64)
        for number, row in enumerate(firsts.tolist()):
            labels = labels_of_row(columns, row)
            found[number] = numbers.setdefault(labels, len(numbers))
        return found[codes]


def _frames(blocks: Iterable[LogBlock], most: int) -> Iterator[Frame]:
    """Yields some rows at a time, so that the query can be stopped between them."""
    for block in blocks:
        if block.rows <= most:
            yield Frame(block)
            continue
        for start in range(0, block.rows, most):
            yield Frame(block, np.arange(start, min(start + most, block.rows)))


def labels_of_row(columns: dict[str, Column], row: int) -> SeriesLabels:
    """Returns the labels of a row; the names of the columns are sorted."""
    return tuple(
        (name, column.texts[code]) for name, column in columns.items() if (code := int(column.codes[row])) != ABSENT
    )


def _converted(unwrap: Unwrap, frame: Frame) -> NDArray[np.float64]:
    """Returns the values of the label; rows where it is no such value are marked."""
    column = frame.label(unwrap.label)
    convert = _CONVERSIONS[unwrap.conversion]
    values = np.full(len(column.values) + 1, np.nan)
    faults: list[str | None] = [None] * len(column.values)
    for code in used_codes(column.codes).tolist():
        try:
            values[code] = convert(column.texts[code])
        except ValueError as wrong:
            faults[code] = str(wrong)
    if any(faults):
        details = from_texts([*faults, None])
        spread = Column(details.codes[column.codes], details.values)
        frame.fail(spread.present, EXTRACTION_ERROR, spread)
    return values[column.codes]


def _refuse_errors(frame: Frame) -> None:
    failed: Mask = frame.failed
    if not failed.any():
        return
    row = int(np.flatnonzero(failed)[0])
    columns = {name: frame.label(name) for name in frame.all_names()}
    labels = labels_of_row(columns, row)
    error = dict(labels)[ERROR]
    raise QueryError(
        f"pipeline error: '{error}' for series: '{printed_labels(labels)}'.\n"
        f'Use a label filter to intentionally skip this error. (e.g | __error__!="{error}").\n'
        'To skip all potential errors you can match empty errors.(e.g __error__="")\n'
        'The label filter can also be specified after unwrap. (e.g | unwrap latency | __error__="" )\n'
    )


def line_bytes(frame: Frame) -> NDArray[np.int64]:
    return np.asarray(pc.binary_length(frame.lines), dtype=np.int64)
