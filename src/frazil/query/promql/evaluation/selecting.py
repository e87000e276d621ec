"""Selects series: their newest samples at each step, or those of the window before each step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from frazil.query.promql.evaluation.context import Evaluation, Steps
from frazil.query.promql.evaluation.matrix import Cells, Floats, Mask, Matrix, empty_cells, stack
from frazil.query.promql.histograms.histogram import Hint, Histogram
from frazil.query.promql.histograms.resets import is_reset
from frazil.query.promql.parse.tree import Matcher, MatrixSelector, Node, Subquery, VectorSelector
from frazil.query.promql.series.source import STALE_BITS, Hints, Samples, SeriesBlock, Times
from frazil.query.promql.windows.edges import edges, gather

# So many series are worked on at once, that their samples stay in the processor's cache.
CHUNK = 128
Evaluate = Callable[[Node, Steps], object]


def live(samples: Samples) -> Samples:
    """Returns samples without stale markers."""
    if samples.values.dtype == object or not samples.count:
        return samples
    stale = np.ascontiguousarray(samples.values).view(np.int64) == STALE_BITS
    return samples.where(~stale) if stale.any() else samples


def select(
    evaluation: Evaluation,
    matchers: Sequence[Matcher],
    start_ms: int,
    end_ms: int,
    range_ms: int,
    stats_only: bool = False,
) -> list[SeriesBlock]:
    """Returns the series, without start times unless they count."""
    query = evaluation.query
    hints = Hints(start_ms, end_ms, query.interval, range_ms)
    evaluation.check()
    blocks = []
    found = evaluation.source.select(matchers, start_ms, end_ms, hints)
    for block in (part for whole in found for part in by_kind(whole)):
        if not evaluation.options.start_timestamps:
            histograms = None if block.histograms is None else replace(block.histograms, starts=None)
            block = SeriesBlock(block.labels, replace(block.floats, starts=None), histograms)
        if stats_only and block.histograms is not None:
            block = replace(block, histograms=without_buckets(block.histograms))
        blocks.append(block)
    return blocks


def by_kind(block: SeriesBlock) -> list[SeriesBlock]:
    """Returns the series that have histograms apart from the others, so that these stay matrices of floats."""
    if block.histograms is None:
        return [block]
    assert block.histograms.offsets is not None
    has: Mask = np.asarray(np.diff(block.histograms.offsets) > 0)
    if has.all():
        return [block]
    floats, cells = np.flatnonzero(~has), np.flatnonzero(has)
    parts = [SeriesBlock(block.labels.take(floats), block.floats.take(floats))]
    if len(cells):
        parts.append(SeriesBlock(block.labels.take(cells), block.floats.take(cells), block.histograms.take(cells)))
    return parts


def without_buckets(samples: Samples) -> Samples:
    """Returns histograms with count and sum only; what their buckets tell of resets is kept as a hint."""
    assert samples.offsets is not None
    values = empty_cells(samples.values.shape)
    firsts = set(samples.offsets[:-1].tolist())
    for at, histogram in enumerate(samples.values):
        hint = histogram.hint
        if hint == Hint.UNKNOWN and at not in firsts:
            hint = Hint.RESET if is_reset(histogram, samples.values[at - 1]) else Hint.NOT_RESET
        values[at] = Histogram(schema=histogram.schema, count=histogram.count, sum=histogram.sum, hint=hint)
    return replace(samples, values=values)


@dataclass(frozen=True)
class Newest:
    """Has the newest sample of each series at each step."""

    matrix: Matrix
    times: Times
    """When each sample was."""
    starts: Times


def newest(samples: Samples, moments: Times, lookback_ms: int) -> tuple[Times, Mask, Times]:
    """Returns positions of the newest samples, which of them are young enough, and when they were."""
    behind = edges(samples, moments)
    first = 0 if samples.offsets is None else samples.offsets[:-1, None]
    times = gather(samples.times, behind - 1)
    shape = (samples.series, len(moments))
    valid = np.broadcast_to((behind > first) & (times > moments - lookback_ms), shape)
    return behind - 1, valid, np.broadcast_to(times, shape)


def select_instant(
    evaluation: Evaluation, node: VectorSelector, steps: Steps, with_times: bool = False
) -> list[Newest]:
    """Returns the newest sample of each series at each step, if it is young enough and no stale marker."""
    moments = evaluation.moments(node, steps)
    lookback = evaluation.options.lookback_ms
    begin, end = int(moments[0]) - lookback + 1, int(moments[-1])
    stats_only = id(node) in evaluation.stats_only
    found = []
    for block in select(evaluation, node.all_matchers, begin, end, 0, stats_only):
        found.append(newest_of(evaluation, block, moments, with_times))
    return found


def newest_of(evaluation: Evaluation, block: SeriesBlock, moments: Times, with_times: bool = True) -> Newest:
    """Returns the newest samples of a block; their times only where they are wanted, or decide."""
    lookback, steps = evaluation.options.lookback_ms, len(moments)
    size = block.labels.size
    evaluation.bound(size, steps)
    values, present = np.empty((size, steps)), np.empty((size, steps), bool)
    timed = with_times or block.histograms is not None
    times = np.zeros((size, steps) if timed else (size, 0), np.int64)
    starts = np.zeros(times.shape, np.int64)
    for first in range(0, size, CHUNK):
        rows = slice(first, min(first + CHUNK, size))
        part = block.floats.part(rows.start, rows.stop)
        at, valid, when = newest(part, moments, lookback)
        values[rows] = gather(part.values, at)
        present[rows] = valid
        if timed:
            times[rows] = when
        if timed and part.starts is not None:
            starts[rows] = gather(part.starts, at)
        evaluation.check()
    cells: Cells | None = None
    gone = present & (values.view(np.int64) == STALE_BITS)
    if block.histograms is not None:
        cells = empty_cells((size, steps))
        at, valid, when = newest(block.histograms, moments, lookback)
        valid = valid & (~present | (when > times))
        cells[valid] = gather(block.histograms.values, at)[valid]
        times = np.where(valid, when, times)
        if block.histograms.starts is not None:
            starts = np.where(valid, gather(block.histograms.starts, at), starts)
        present = present & ~valid
        gone &= ~valid
    present &= ~gone
    matrix = Matrix(block.labels, values, present, cells)
    evaluation.hold(int(matrix.mask.sum()))
    rows_left = np.flatnonzero(matrix.mask.any(axis=1))
    if len(rows_left) == size:
        return Newest(matrix, times, starts)
    return Newest(matrix.take(rows_left), times[rows_left], starts[rows_left])


def instant_vector(evaluation: Evaluation, node: VectorSelector, steps: Steps) -> Matrix:
    return stack([found.matrix for found in select_instant(evaluation, node, steps)], steps.count)


@dataclass(frozen=True)
class Ranges:
    """Has the samples that a range selector or subquery finds, and at which times the windows end."""

    blocks: list[SeriesBlock]
    ends: Times
    range_ms: int
    dropped: list[Mask | None]
    """For each block, which series lose their names at the end."""
    selector: VectorSelector | None = None


def select_range(evaluation: Evaluation, node: MatrixSelector, steps: Steps, reach: bool = False) -> Ranges:
    """Returns the samples of the windows before each step; stale markers are still among them."""
    selector = node.selector
    ends = evaluation.moments(selector, steps)
    range_ms = evaluation.duration_ms(node.range)
    lookback = evaluation.options.lookback_ms
    extended = reach and (selector.anchored or selector.smoothed)
    begin = int(ends[0]) - range_ms - (lookback if extended else 0) + 1
    end = int(ends[-1]) + (lookback if extended and selector.smoothed else 0)
    blocks = []
    stats_only = id(selector) in evaluation.stats_only
    for block in select(evaluation, selector.all_matchers, begin, end, range_ms, stats_only):
        blocks.append(block)
        evaluation.hold(block.floats.count_within(begin, end))
        evaluation.hold(0 if block.histograms is None else block.histograms.count_within(begin, end))
    return Ranges(blocks, ends, range_ms, [None] * len(blocks), selector)


def subquery_steps(evaluation: Evaluation, node: Subquery, ends: Times) -> Steps:
    """Returns the steps of a subquery: multiples of its step that lie in any of the windows."""
    step = evaluation.duration_ms(node.step) or evaluation.options.subquery_step_ms
    range_ms = evaluation.duration_ms(node.range)
    begin = int(ends[0]) - range_ms
    first = step * (begin // step)
    if first <= begin:
        first += step
    evaluation.bound(1, (int(ends[-1]) - first) // step + 1)
    return Steps(first, int(ends[-1]), step)


def matrix_block(matrix: Matrix, times: Times, hints: bool) -> SeriesBlock:
    """Returns the points of a matrix as samples again; functions over ranges want no hints on neighbours."""
    if matrix.present.all() and matrix.cells is None:
        return SeriesBlock(matrix.labels, Samples(times, np.ascontiguousarray(matrix.values)))
    histograms = None
    if matrix.cells is not None:
        cells = matrix.cells[matrix.histograms]
        unknown = empty_cells(cells.shape)
        for at, histogram in enumerate(cells):
            keep = hints or histogram.hint in (Hint.GAUGE, Hint.UNKNOWN)
            unknown[at] = histogram if keep else histogram.with_hint(Hint.UNKNOWN)
        histograms = masked(matrix.histograms, unknown, times)
    return SeriesBlock(matrix.labels, masked(matrix.present, matrix.values[matrix.present], times), histograms)


def masked(mask: Mask, values: Floats | Cells, times: Times) -> Samples:
    offsets = np.concatenate([[0], np.cumsum(mask.sum(axis=1))]).astype(np.int64)
    return Samples(np.broadcast_to(times, mask.shape)[mask], values, offsets)
