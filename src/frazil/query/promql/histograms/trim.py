"""Cuts off the observations of a histogram above or below a value."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from frazil.query.promql.histograms.histogram import Buckets, Histogram, divide
from frazil.query.promql.histograms.quantiles import fraction_below


def trim(histogram: Histogram, limit: float, keep_below: bool) -> Histogram:
    """Returns what is below (or above) the limit. Count and sum are estimated anew only if something was cut."""
    buckets = histogram.bucket_list(0.0)
    populated = {side: bool(((buckets.side == side) & (buckets.counts != 0)).any()) for side in (-1, 1)}
    count = total = 0.0
    kept = buckets.counts.copy()
    for at in np.flatnonzero(buckets.counts != 0):
        low, high, size = float(buckets.lower[at]), float(buckets.upper[at]), float(buckets.counts[at])
        side = int(buckets.side[at])
        if side == 0:
            if size < 0:
                continue
            low = 0.0 if populated[1] and not populated[-1] else low
            high = 0.0 if populated[-1] and not populated[1] else high
            share, middle = trim_zero(low, high, limit, keep_below)
            part = size * share
        else:
            part, middle = trim_bucket(low, high, size, limit, keep_below, side > 0, histogram.custom)
        kept[at] = part
        count += part
        total += middle * part
    if np.array_equal(kept, buckets.counts):
        return histogram
    zero = kept[buckets.side == 0]
    return replace(
        histogram,
        count=count,
        sum=total,
        zero_count=float(zero[0]) if len(zero) else histogram.zero_count,
        positive=Buckets(histogram.positive.indexes, kept[buckets.side > 0]),
        negative=Buckets(histogram.negative.indexes, kept[buckets.side < 0][::-1]),
    ).compact()


def trim_zero(low: float, high: float, limit: float, keep_below: bool) -> tuple[float, float]:
    """Returns which share of the zero bucket is kept, and the middle of what is kept."""
    if limit <= low:
        return (0.0, 0.0) if keep_below else (1.0, (low + high) / 2)
    if limit >= high:
        return (1.0, (low + high) / 2) if keep_below else (0.0, 0.0)
    if keep_below:
        return divide(limit - low, high - low), (low + limit) / 2
    return divide(high - limit, high - low), (limit + high) / 2


def trim_bucket(
    low: float, high: float, size: float, limit: float, keep_below: bool, positive: bool, custom: bool
) -> tuple[float, float]:
    """Returns how much of a bucket is kept, and the middle of what is kept."""
    whole = high <= limit if keep_below else low >= limit
    if whole:
        return size, middle_of(low, high, positive, custom)
    touched = low < limit if keep_below else high > limit
    if not touched:
        return 0.0, 0.0
    if math.isinf(low) and low < 0:
        return trim_lowest(high, size, limit, keep_below)
    if math.isinf(high):
        if not keep_below and limit >= low:
            return size, limit
        return 0.0, 0.0
    below = 0.0 if limit <= low else size if limit >= high else size * fraction_below(low, high, limit, custom)
    if keep_below:
        return below, middle_of(low, limit, positive, custom)
    return size - below, middle_of(limit, high, positive, custom)


def trim_lowest(high: float, size: float, limit: float, keep_below: bool) -> tuple[float, float]:
    """Cuts the custom bucket without a lower bound: with a positive upper one, it is taken to begin at 0."""
    if keep_below:
        if limit > 0 and 0 < high < math.inf:
            return size * limit / high, limit / 2
        return (size, limit) if high <= 0 else (0.0, 0.0)
    if limit >= 0 and limit < high < math.inf:
        return size * (1 - limit / high), (limit + high) / 2
    return 0.0, 0.0


def middle_of(low: float, high: float, positive: bool, linear: bool) -> float:
    if math.isinf(low):
        if math.isinf(high):
            return 0.0
        return high / 2 if high > 0 else high
    if math.isinf(high):
        return low
    if linear:
        return (low + high) / 2
    mean = math.sqrt(abs(low * high)) if abs(low * high) < math.inf else math.sqrt(abs(low)) * math.sqrt(abs(high))
    return mean if positive else -mean
