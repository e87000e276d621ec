"""Evaluates `smoothed` selectors: values on the line between the samples around each step."""

from __future__ import annotations

import numpy as np

from frazil.query.promql.evaluation.context import Evaluation, Steps
from frazil.query.promql.evaluation.matrix import Matrix, empty_cells, stack
from frazil.query.promql.evaluation.selecting import live, select
from frazil.query.promql.histograms.histogram import Hint, Histogram
from frazil.query.promql.histograms.merge import IncompatibleSchemas
from frazil.query.promql.parse.tree import VectorSelector
from frazil.query.promql.series.source import Samples, SeriesBlock, Times
from frazil.query.promql.windows import histograms
from frazil.query.promql.windows.edges import Windows, edges
from frazil.query.promql.windows.extended import interpolate


def smoothed_vector(evaluation: Evaluation, node: VectorSelector, steps: Steps) -> Matrix:
    """Returns a value for each step that has a sample before it, and after it or not."""
    moments = evaluation.moments(node, steps)
    lookback = evaluation.options.lookback_ms
    begin, end = int(moments[0]) - lookback + 1, int(moments[-1]) + lookback
    parts = [
        smoothed_block(evaluation, node, block, moments)
        for block in select(evaluation, node.all_matchers, begin, end, 0)
    ]
    found = stack(parts, steps.count)
    evaluation.hold(int(found.mask.sum()))
    return found.without_empty()


def around(samples: Samples, moments: Times, lookback_ms: int) -> tuple[Windows, Times]:
    """Returns windows of the samples near each moment, and the position of the first that is not earlier."""
    lo, hi = edges(samples, moments - lookback_ms), edges(samples, moments + lookback_ms)
    at = np.minimum(np.maximum(edges(samples, moments - 1), lo), hi)
    return Windows(samples, moments, 0, lo, hi), at


def smoothed_block(evaluation: Evaluation, node: VectorSelector, block: SeriesBlock, moments: Times) -> Matrix:
    lookback = evaluation.options.lookback_ms
    windows, at = around(live(block.floats), moments, lookback)
    exact = (at < windows.hi) & (windows.times(at) == moments)
    before, after = at > windows.lo, at < windows.hi
    between = interpolate(
        moments, windows.values(at - 1), windows.times(at - 1), windows.values(at), windows.times(at), False
    )
    values = np.where(exact, windows.values(at), np.where(before & after, between, windows.values(at - 1)))
    shape = windows.shape
    present = np.array(np.broadcast_to(exact | before, shape))
    values = np.array(np.broadcast_to(values, shape), np.float64)
    if block.histograms is None:
        return Matrix(block.labels, values, present)
    names = block.labels.get("__name__").strings()
    cell_windows, cell_at = around(block.histograms, moments, lookback)
    mixed = np.broadcast_to(windows.widths > 0, shape) & (cell_windows.widths > 0)
    for row in np.flatnonzero(mixed.any(axis=1)):
        evaluation.warn(f'encountered a mix of histograms and floats for metric name "{names[row]}"', node)
    cells = empty_cells(shape)
    for row, step in np.argwhere((cell_windows.widths > 0) & ~mixed):
        notes = histograms.Notes(
            lambda text: evaluation.warn(text, node), lambda text: evaluation.info(text, node), names[row]
        )
        cells[row, step] = between_cells(cell_windows, int(cell_at[row, step]), row, step, int(moments[step]), notes)
    return Matrix(block.labels, values, present & ~mixed, cells)


def between_cells(
    windows: Windows, at: int, row: int, step: int, moment: int, notes: histograms.Notes
) -> Histogram | None:
    """Returns the histogram on the line between the samples before and after a moment."""
    samples, lo, hi = windows.samples, int(windows.lo[row, step]), int(windows.hi[row, step])
    if at < hi and samples.times[at] == moment:
        exact: Histogram = samples.values[at]
        return exact
    if at <= lo:
        return None
    before: Histogram = samples.values[at - 1]
    if at >= hi:
        return before.with_hint(Hint.UNKNOWN)
    after: Histogram = samples.values[at]
    counter = before.hint != Hint.GAUGE or after.hint != Hint.GAUGE
    try:
        times = int(samples.times[at - 1]), int(samples.times[at])
        return histograms.interpolate(before, times[0], after, times[1], moment, counter, notes)
    except IncompatibleSchemas:
        notes.mixed_schemas()
        return None
