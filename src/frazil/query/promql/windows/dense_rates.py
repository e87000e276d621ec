"""Computes rates of native histograms whose buckets are alike: all windows of a series at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from frazil.query.promql.histograms.histogram import EMPTY, Buckets, Hint, Histogram, Ints, upper_bounds
from frazil.query.promql.series.source import Times
from frazil.query.promql.windows.edges import Floats


@dataclass(frozen=True)
class Dense:
    """Has the histograms of a series as rows: count, sum, zero count, then each bucket."""

    first: Histogram
    rows: Floats
    positive: Ints
    negative: Ints
    resets: Ints
    """The samples before which the counter began anew."""


def lay_out(histograms: Sequence[Histogram]) -> Dense | None:
    """Returns the histograms as rows; None if they are not alike, or their hints ask for more than their counts."""
    first = histograms[0]
    for histogram in histograms:
        alike = histogram.schema == first.schema and histogram.zero_threshold == first.zero_threshold
        if not alike or histogram.bounds != first.bounds or histogram.hint in (Hint.GAUGE, Hint.RESET):
            return None
    positive = np.unique(np.concatenate([histogram.positive.indexes for histogram in histograms]))
    negative = np.unique(np.concatenate([histogram.negative.indexes for histogram in histograms]))
    if not first.custom and first.zero_threshold > 0:
        for side in (positive, negative):
            if len(side) and upper_bounds(side[:1], first.schema)[0] <= first.zero_threshold:
                return None
    rows = np.zeros((len(histograms), 3 + len(positive) + len(negative)))
    middle = 3 + len(positive)
    for row, histogram in zip(rows, histograms, strict=True):
        row[:3] = histogram.count, histogram.sum, histogram.zero_count
        row[3 + np.searchsorted(positive, histogram.positive.indexes)] = histogram.positive.counts
        row[middle + np.searchsorted(negative, histogram.negative.indexes)] = histogram.negative.counts
    if not np.isfinite(np.delete(rows, 1, axis=1)).all():
        return None
    unknown = np.array([histogram.hint == Hint.UNKNOWN for histogram in histograms[1:]], bool)
    # The sum may go down: observations may be negative.
    shrinks = np.delete(rows[1:] < rows[:-1], 1, axis=1).any(axis=1)
    return Dense(first, rows, positive, negative, np.flatnonzero(unknown & shrinks) + 1)


def rates(
    dense: Dense, times: Times, lo: Ints, hi: Ints, ends: Times, range_ms: int, per_second: bool
) -> list[Histogram | None]:
    """Returns the growth over each window, extended to its edges; `times` are those of the rows."""
    wide = np.flatnonzero(hi - lo >= 2)
    found: list[Histogram | None] = [None] * len(lo)
    if not len(wide):
        return found
    first, last, ends = lo[wide], hi[wide] - 1, ends[wide]
    with np.errstate(all="ignore"):
        total = dense.rows[last] - dense.rows[first]
        for reset in dense.resets:
            total[(first < reset) & (reset <= last)] += dense.rows[reset - 1]
        factor = extension(dense.rows[first, 0], total[:, 0], times[first], times[last], last - first, ends, range_ms)
        if per_second:
            factor = factor / (range_ms / 1000)
        total *= factor[:, None]
    middle = 3 + len(dense.positive)
    for step, row in zip(wide.tolist(), total, strict=True):
        found[step] = Histogram(
            schema=dense.first.schema,
            count=float(row[0]),
            sum=float(row[1]),
            zero_threshold=dense.first.zero_threshold,
            zero_count=float(row[2]),
            positive=populated(dense.positive, row[3:middle]),
            negative=populated(dense.negative, row[middle:]),
            bounds=dense.first.bounds,
            hint=Hint.GAUGE,
        )
    return found


def populated(indexes: Ints, counts: Floats) -> Buckets:
    filled = counts != 0
    if filled.all():
        return Buckets(indexes, counts) if len(indexes) else EMPTY
    return Buckets(indexes[filled], counts[filled])


def extension(
    first_count: Floats, grown: Floats, first: Times, last: Times, gaps: Ints, ends: Times, range_ms: int
) -> Floats:
    """Returns by how much the growth between two samples is extended to the edges of the window."""
    to_start, to_end = (first - (ends - range_ms)) / 1000, (ends - last) / 1000
    sampled = (last - first) / 1000
    average = sampled / gaps
    to_start = np.where(to_start >= average * 1.1, average / 2, to_start)
    to_end = np.where(to_end >= average * 1.1, average / 2, to_end)
    to_zero = sampled * (first_count / grown)
    to_start = np.where((grown > 0) & (first_count >= 0) & (to_zero < to_start), to_zero, to_start)
    return np.asarray((sampled + to_start + to_end) / sampled)
