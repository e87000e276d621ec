"""Finds out whether a counter of histograms began anew between two samples."""

from __future__ import annotations

import math

import numpy as np

from frazil.query.promql.histograms.histogram import Buckets, Hint, Histogram, upper_bounds
from frazil.query.promql.histograms.merge import reduce_side, with_bounds, zero_count_for


def is_reset(current: Histogram, previous: Histogram) -> bool:
    """Whether a histogram cannot continue the one before it, or says itself that it does not."""
    if current.hint == Hint.RESET:
        return True
    if current.hint == Hint.NOT_RESET:
        return False
    if current.count < previous.count:
        return True
    if current.custom:
        if not previous.custom:
            return True
        if current.bounds != previous.bounds:
            common = tuple(sorted(set(current.bounds) & set(previous.bounds)))
            return shrinks(with_bounds(current, common).positive, with_bounds(previous, common).positive)
        return shrinks(current.positive, previous.positive)
    if previous.custom:
        return True
    if current.schema > previous.schema or current.zero_threshold < previous.zero_threshold:
        return True
    zero_count, threshold = zero_count_for(previous, current.zero_threshold)
    if threshold != current.zero_threshold or current.zero_count < zero_count:
        return True
    steps = previous.schema - current.schema
    for now, before in ((current.positive, previous.positive), (current.negative, previous.negative)):
        before = reduce_side(before, steps) if steps else before
        if current.zero_threshold > 0 and len(before):
            outside = upper_bounds(before.indexes, current.schema) > current.zero_threshold
            before = Buckets(before.indexes[outside], before.counts[outside])
        if shrinks(now, before):
            return True
    return False


def shrinks(current: Buckets, previous: Buckets) -> bool:
    """Whether any populated bucket became smaller, or is missing now."""
    if not len(previous):
        return False
    if len(current) == len(previous) and np.array_equal(current.indexes, previous.indexes):
        return bool((current.counts < previous.counts).any())
    if not len(current):
        return bool((previous.counts != 0).any())
    at = np.minimum(np.searchsorted(current.indexes, previous.indexes), len(current) - 1)
    present = current.indexes[at] == previous.indexes
    smaller = np.where(present, current.counts[at] < previous.counts, previous.counts != 0)
    return bool(smaller.any())


def is_stale(histogram: Histogram, stale_bits: int) -> bool:
    return math.isnan(histogram.sum) and int(np.float64(histogram.sum).view(np.int64)) == stale_bits
