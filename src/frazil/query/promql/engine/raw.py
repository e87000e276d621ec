"""Evaluates a query that is a range vector: the samples themselves."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from frazil.query.promql.engine.evaluator import Evaluator
from frazil.query.promql.evaluation.context import Steps
from frazil.query.promql.evaluation.matrix import RESERVED, fail_on_same
from frazil.query.promql.evaluation.selecting import Ranges, live
from frazil.query.promql.parse.tree import Node
from frazil.query.promql.problems import ExecutionError
from frazil.query.promql.series.labels import LabelTable, concatenate
from frazil.query.promql.series.source import Samples, SeriesBlock
from frazil.query.promql.windows.edges import Windows, edges, windows_of
from frazil.query.promql.windows.extended import edge_values


@dataclass(frozen=True)
class RangeVector:
    """Has series with the samples of one window each, in the order of their labels."""

    labels: LabelTable
    floats: list[Samples]
    """Of each series."""
    histograms: list[Samples]


def range_vector(evaluator: Evaluator, node: Node, steps: Steps) -> RangeVector:
    """Returns the samples of a range selector or subquery at one moment."""
    ranges = evaluator.ranges(node, steps, hints=True)
    tables: list[LabelTable] = []
    floats: list[Samples] = []
    cells: list[Samples] = []
    for block, dropped in zip(ranges.blocks, ranges.dropped, strict=True):
        labels = block.labels if dropped is None else block.labels.drop_where(RESERVED, dropped)
        extended = ranges.selector is not None and (ranges.selector.anchored or ranges.selector.smoothed)
        if extended and block.histograms is not None:
            word = "anchored" if ranges.selector and ranges.selector.anchored else "smoothed"
            raise ExecutionError(f"{word} modifier is not supported with histograms")
        found_floats = extended_series(evaluator, ranges, block) if extended else cut(block.floats, ranges)
        nothing = [Samples(np.empty(0, np.int64), np.empty(0, object))] * labels.size
        found_cells = nothing if block.histograms is None else cut(block.histograms, ranges)
        filled = [at for at in range(labels.size) if found_floats[at].times.size or found_cells[at].times.size]
        tables.append(labels.take(np.array(filled, np.int64)))
        floats += [found_floats[at] for at in filled]
        cells += [found_cells[at] for at in filled]
    labels = concatenate(tables) if tables else LabelTable(0, {})
    fail_on_same(labels)
    order = labels.order().tolist()
    return RangeVector(labels.take(np.array(order, np.int64)), [floats[o] for o in order], [cells[o] for o in order])


def cut(samples: Samples, ranges: Ranges) -> list[Samples]:
    """Returns the samples of the window, for each series."""
    ragged = live(samples).ragged()
    windows = windows_of(ragged, ranges.ends[:1], ranges.range_ms)
    bounds = zip(windows.lo[:, 0].tolist(), windows.hi[:, 0].tolist(), strict=True)
    return [
        replace(ragged, times=ragged.times[lo:hi], values=ragged.values[lo:hi], offsets=None) for lo, hi in bounds
    ]


def extended_series(evaluator: Evaluator, ranges: Ranges, block: SeriesBlock) -> list[Samples]:
    """Returns the samples inside the window, with values at exactly its edges."""
    ragged = live(block.floats).ragged()
    assert ranges.selector is not None
    lookback, ends, range_ms = evaluator.evaluation.options.lookback_ms, ranges.ends[:1], ranges.range_ms
    lo = edges(ragged, ends - range_ms - lookback)
    hi = edges(ragged, ends + (lookback if ranges.selector.smoothed else 0))
    reach = Windows(ragged, ends, range_ms, lo, hi)
    inner, left, right = edge_values(reach, range_ms, ranges.selector.smoothed, counter=False)
    begin, end = int(ends[0]) - range_ms, int(ends[0])
    found = []
    for row in range(block.labels.size):
        if not left.present[row, 0]:
            found.append(Samples(np.empty(0, np.int64), np.empty(0)))
            continue
        part = slice(int(inner.lo[row, 0]), int(inner.hi[row, 0]))
        times = np.concatenate([[begin], ragged.times[part], [end]]).astype(np.int64)
        values = np.concatenate([left.values[row], ragged.values[part], right.values[row]])
        found.append(Samples(times, values))
    return found
