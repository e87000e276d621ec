"""Answers log queries: the first lines in the wanted order, with their labels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from frazil.query.logql.blocks import LogBlock, LogSource, Selection
from frazil.query.logql.columns import ABSENT, Column, combined
from frazil.query.logql.frame import KINDS, Frame, Kind
from frazil.query.logql.guards import Guard
from frazil.query.logql.metrics.matrix import SeriesLabels
from frazil.query.logql.parse.log_tree import LineFilter, LogQuery
from frazil.query.logql.stages.findings import Wanted
from frazil.query.logql.stages.pipeline import Pipeline, leading_filters, reordered
from frazil.scan.interface import UNIT_ROWS

_FIRST_ROWS = 512


@dataclass(frozen=True)
class EntryLabels:
    """Has the labels of a line by where they are from; values of a later kind hide those of an earlier one."""

    stream: SeriesLabels
    metadata: SeriesLabels
    parsed: SeriesLabels

    def merged(self) -> SeriesLabels:
        return tuple(sorted({**dict(self.stream), **dict(self.metadata), **dict(self.parsed)}.items()))


@dataclass(frozen=True)
class Entry:
    time_ns: int
    line: str
    labels: EntryLabels


@dataclass(frozen=True)
class LogRequest:
    query: LogQuery
    start_ns: int
    end_ns: int
    """The first moment that is not wanted any more."""
    limit: int
    newest_first: bool = True
    interval_ns: int = 0
    """Lines that follow another sooner than this are left out."""


def log_entries(request: LogRequest, source: LogSource, guard: Guard) -> Iterator[Entry]:
    """Yields the first lines in the wanted order, up to the limit."""
    stages = reordered(request.query.stages)
    pipeline = Pipeline(stages, Wanted(None))
    selection = Selection(
        start_ns=request.start_ns,
        end_ns=request.end_ns,
        matchers=request.query.selector.matchers,
        line_filters=leading_filters(stages),
        order="newest first" if request.newest_first else "oldest first",
        first_rows=_first_rows(request),
    )
    left = request.limit
    last_ns: int | None = None
    if left <= 0 or request.start_ns >= request.end_ns:
        return
    for frame in _frames(source.select(selection), request.limit):
        guard.check()
        pipeline.run(frame)
        if not frame.rows:
            continue
        rows, last_ns = _spaced(frame, request.interval_ns, last_ns, left)
        yield from _entries(frame, rows)
        left -= len(rows)
        if not left:
            return


def _first_rows(request: LogRequest) -> int:
    """Returns how many lines are probably enough: more than the limit if stages or the interval leave some out."""
    only_filters = all(isinstance(stage, LineFilter) for stage in request.query.stages)
    return request.limit if only_filters and not request.interval_ns else max(8 * request.limit, 2 * _FIRST_ROWS)


def _frames(blocks: Iterable[LogBlock], limit: int) -> Iterator[Frame]:
    """Yields few rows at first, which are often enough, and then more and more."""
    size = max(2 * limit, _FIRST_ROWS)
    for block in blocks:
        start = 0
        while start < block.rows:
            yield Frame(block, np.arange(start, min(start + size, block.rows)))
            start += size
            size = min(2 * size, UNIT_ROWS)


def _spaced(frame: Frame, interval_ns: int, last_ns: int | None, most: int) -> tuple[list[int], int | None]:
    """Returns the rows that are far enough from the row before, and the time of the last of them."""
    if not interval_ns:
        return list(range(min(frame.rows, most))), None
    rows: list[int] = []
    for row, time_ns in enumerate(frame.times_ns.tolist()):
        if last_ns is None or abs(time_ns - last_ns) >= interval_ns:
            rows.append(row)
            last_ns = time_ns
            if len(rows) == most:
                break
    return rows, last_ns


def _entries(frame: Frame, rows: list[int]) -> Iterator[Entry]:
    columns: dict[Kind, dict[str, Column]] = {
        kind: {name: frame.column(kind, name) for name in frame.names(kind)} for kind in KINDS
    }
    codes = [column.codes for kind in KINDS for column in columns[kind].values()]
    numbers, _ = combined(codes, frame.rows)
    known: dict[int, EntryLabels] = {}
    times, lines = frame.times_ns, frame.lines
    for row in rows:
        number = int(numbers[row])
        labels = known.get(number)
        if labels is None:
            labels = known[number] = _labels(columns, row)
        yield Entry(int(times[row]), lines[row].as_py(), labels)


def _labels(columns: dict[Kind, dict[str, Column]], row: int) -> EntryLabels:
    """Returns the labels of a row. One that a stage wrote anew is no label of the stream any more."""
    parsed = _of_row(columns["parsed"], row)
    anew = {name for name, _ in parsed}
    metadata = tuple(each for each in _of_row(columns["metadata"], row) if each[0] not in anew)
    anew |= {name for name, _ in metadata}
    stream = tuple(each for each in _of_row(columns["stream"], row) if each[0] not in anew)
    return EntryLabels(stream, metadata, parsed)


def _of_row(columns: dict[str, Column], row: int) -> SeriesLabels:
    return tuple(
        (name, column.texts[code]) for name, column in columns.items() if (code := int(column.codes[row])) != ABSENT
    )
