"""Finds series that have all their times in common, which are quicker to compute with."""

from __future__ import annotations

import numpy as np

from frazil.query.promql.series.source import Samples, SeriesBlock
from frazil.query.promql.storage.arrow_columns import Ints, mixed, runs

FEWEST = 32
"""Fewer series that share their times are not worth a block of their own."""


def split_by_times(block: SeriesBlock) -> list[SeriesBlock]:
    """Returns the series in blocks: one for each group that shares its times, and one for all others."""
    samples = block.floats
    if block.histograms is not None or samples.offsets is None or block.labels.size < FEWEST:
        return [block]
    counts = np.diff(samples.offsets)
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(_hashes(samples.times), dtype=np.uint64)])
    identity = mixed(sums[samples.offsets[1:]] - sums[samples.offsets[:-1]], counts.astype(np.uint64))
    _, group, sizes = np.unique(identity, return_inverse=True, return_counts=True)
    found = []
    others = np.flatnonzero((sizes[group.reshape(-1)] < FEWEST) | (counts == 0))
    for number in np.flatnonzero(sizes >= FEWEST).tolist():
        rows = np.flatnonzero((group.reshape(-1) == number) & (counts > 0))
        if not len(rows):
            continue
        shared = _matrix(samples, rows)
        if shared is None:
            others = np.concatenate([others, rows])
        else:
            found.append(SeriesBlock(block.labels.take(rows), shared))
    if len(others):
        others.sort()
        found.append(SeriesBlock(block.labels.take(others), take_series(samples, others)))
    return found


def _hashes(times: Ints) -> np.ndarray:
    return mixed(times.view(np.uint64), np.uint64(5))


def _matrix(samples: Samples, rows: Ints) -> Samples | None:
    """Returns series as a matrix, or None if they differ in their times after all."""
    assert samples.offsets is not None
    length = int(samples.offsets[rows[0] + 1] - samples.offsets[rows[0]])
    if len(rows) == samples.series:
        times, values = samples.times.reshape(-1, length), samples.values.reshape(-1, length)
        starts = None if samples.starts is None else samples.starts.reshape(-1, length)
    else:
        at = samples.offsets[rows][:, None] + np.arange(length)
        times, values = samples.times[at], samples.values[at]
        starts = None if samples.starts is None else samples.starts[at]
    return Samples(times[0], values, None, starts) if (times == times[0]).all() else None


def take_series(samples: Samples, rows: Ints) -> Samples:
    """Returns some of the series."""
    if len(rows) == samples.series and (rows == np.arange(len(rows))).all():
        return samples
    if samples.offsets is None:
        return Samples(
            samples.times, samples.values[rows], None, None if samples.starts is None else samples.starts[rows]
        )
    at, offsets = runs(samples.offsets, rows)
    starts = None if samples.starts is None else samples.starts[at]
    return Samples(samples.times[at], samples.values[at], offsets, starts)


def within(samples: Samples, start_ms: int, end_ms: int) -> Samples:
    """Returns the samples in a span of time, both ends included."""
    if not len(samples.times):
        return samples
    if samples.offsets is None:
        first, last = np.searchsorted(samples.times, [start_ms, end_ms + 1]).tolist()
        if (first, last) == (0, len(samples.times)):
            return samples
        starts = None if samples.starts is None else samples.starts[:, first:last]
        return Samples(samples.times[first:last], samples.values[:, first:last], None, starts)
    wanted = (samples.times >= start_ms) & (samples.times <= end_ms)
    return samples.where(wanted)
