"""Counts values in buckets whose bounds are powers of two, and estimates quantiles from them."""

from __future__ import annotations

import numpy as np

from frazil.query.traceql.engine.values import Bools, Floats, Ints

_DURATIONS = 64
"""This is added to the numbers of buckets of durations, whose bounds are shown in seconds."""
MOST_BUCKETS = 2 * _DURATIONS
"""The numbers of buckets are below this."""


def bucket_numbers(values: Ints, durations: Bools) -> Ints:
    """Returns the exponent of the smallest power of two that is not below each value."""
    exponents = np.frexp((values - 1).astype(np.float64))[1].astype(np.int64)
    return exponents + _DURATIONS * durations


def bucket_bound(number: int) -> float:
    return 2.0 ** (number - _DURATIONS) / 1e9 if number > _DURATIONS else 2.0**number


def quantile(wanted: float, bounds: Floats, counts: Floats) -> Floats:
    """Estimates a quantile for each step. `counts` has a row for each bucket, and the bounds ascend.

    Where the quantile's rank is the last one of a bucket, it is the bucket's bound. Else it lies between the bounds
    of the bucket and of the one before that has values. A step without values has 0.
    """
    totals = counts.sum(axis=0)
    ranks = np.maximum(np.ceil(wanted * totals), 1)
    below = np.cumsum(counts, axis=0)
    places = (below < ranks).sum(axis=0)
    places = np.minimum(places, len(bounds) - 1)
    steps = np.arange(counts.shape[1])
    upper = bounds[places]
    own = counts[places, steps]
    before = below[places, steps] - own
    lower = _bounds_before(bounds, counts)[places, steps]
    with np.errstate(divide="ignore", invalid="ignore"):
        share = (ranks - before) / own
        between = 2 ** (np.log2(lower) + (np.log2(upper) - np.log2(lower)) * share)
    found: Floats = np.where(totals == 0, 0.0, np.where(below[places, steps] == ranks, upper, between))
    return found


def _bounds_before(bounds: Floats, counts: Floats) -> Floats:
    """Returns the bound of the last bucket with values before each one; half of its own where there is none."""
    filled = np.where(counts > 0, bounds[:, None], 0.0)
    highest = np.maximum.accumulate(filled, axis=0)
    before = np.concatenate([np.zeros((1, counts.shape[1])), highest[:-1]])
    found: Floats = np.where(before > 0, before, bounds[:, None] / 2)
    return found
