"""Estimates quantiles, fractions and the variance of native histograms."""

from __future__ import annotations

import math

import numpy as np

from frazil.query.promql.histograms.histogram import Floats, Histogram, divide


def quantile(q: float, histogram: Histogram) -> tuple[float, str]:
    """Returns the quantile, and what NaN observations do to it: `nan`, `skewed` or nothing."""
    if q < 0:
        return -math.inf, ""
    if q > 1:
        return math.inf, ""
    if histogram.count == 0 or math.isnan(q):
        return math.nan, ""
    upward = math.isnan(histogram.sum) or q < 0.5
    buckets = histogram.buckets
    populated = np.flatnonzero(buckets.counts != 0)
    if not len(populated):
        return (math.nan, "nan") if math.isnan(histogram.sum) else (0.0, "")
    order = populated if upward else populated[::-1]
    cumulated = np.cumsum(buckets.counts[order])
    rank = q * histogram.count if upward else (1 - q) * histogram.count
    found = min(int(np.searchsorted(cumulated >= rank, True)), len(order) - 1)
    if not (cumulated >= rank).any():
        found = len(order) - 1
    at = int(order[found])
    count = float(cumulated[found])
    lower, upper, size = float(buckets.lower[at]), float(buckets.upper[at]), float(buckets.counts[at])
    if not histogram.custom and lower < 0 < upper:
        if not len(histogram.negative) and len(histogram.positive):
            lower = 0.0
        elif not len(histogram.positive) and len(histogram.negative):
            upper = 0.0
    elif histogram.custom:
        if lower == -math.inf:
            if upper <= 0:
                return upper, ""
            lower = 0.0
        elif upper == math.inf:
            return lower, ""
    count = min(count, histogram.count)
    if count < rank:
        return (math.nan, "nan") if math.isnan(histogram.sum) else (upper, "")
    rank = rank - (count - size) if upward else count - rank
    skewed = math.isnan(histogram.sum) and float(cumulated[-1]) < histogram.count
    fraction = divide(rank, size)
    note = "skewed" if skewed else ""
    if histogram.custom or lower <= 0 <= upper:
        return lower + (upper - lower) * fraction, note
    log_lower, log_upper = float(np.log2(abs(lower))), float(np.log2(abs(upper)))
    with np.errstate(over="ignore"):
        if lower > 0:
            return float(np.exp2(log_lower + (log_upper - log_lower) * fraction)), note
        return -float(np.exp2(log_upper + (log_lower - log_upper) * (1 - fraction))), note


def fraction_below(lower: float, upper: float, value: float, linear: bool) -> float:
    """Returns which part of a bucket is below a value inside it."""
    if linear:
        return divide(value - lower, upper - lower)
    log_lower, log_upper, log_value = (float(np.log2(abs(x))) for x in (lower, upper, value))
    if value > 0:
        return divide(log_value - log_lower, log_upper - log_lower)
    return 1 - divide(log_value - log_upper, log_lower - log_upper)


def fraction(lower: float, upper: float, histogram: Histogram) -> tuple[float, bool]:
    """Returns which part of the observations lies between two values, and whether NaN ones were left out."""
    if histogram.count == 0 or math.isnan(lower) or math.isnan(upper):
        return math.nan, False
    if lower >= upper:
        return 0.0, False
    total = float(histogram.buckets.counts.sum())
    bound = total if math.isnan(histogram.sum) else histogram.count
    low, high = rank_of(lower, histogram), rank_of(upper, histogram)
    low = bound if low is None or low > bound else low
    high = bound if high is None or high > bound else high
    left_out = math.isnan(histogram.sum) and total < histogram.count
    return divide(high - low, histogram.count), left_out


def rank_of(value: float, histogram: Histogram) -> float | None:
    """Returns how many observations are below a value; None when that is beyond all buckets."""
    buckets = histogram.buckets
    rank = 0.0
    for at in range(len(buckets.counts)):
        low, high, count = float(buckets.lower[at]), float(buckets.upper[at]), float(buckets.counts[at])
        is_zero = low <= 0 <= high
        if is_zero:
            if not len(histogram.negative) and len(histogram.positive):
                low = 0.0
            elif not len(histogram.positive) and len(histogram.negative):
                high = 0.0
        if low >= value:
            return rank
        if low < value < high:
            if histogram.custom or is_zero:
                if low == -math.inf:
                    return count
                return rank + count * fraction_below(low, high, value, True)
            return rank + count * fraction_below(low, high, value, False)
        rank += count
    return None


def variance(histogram: Histogram) -> float:
    """Returns the variance, with every observation in the middle of its bucket."""
    mean = divide(histogram.sum, histogram.count)
    buckets = histogram.buckets
    populated = buckets.counts != 0
    lower, upper, counts = buckets.lower[populated], buckets.upper[populated], buckets.counts[populated]
    with np.errstate(all="ignore"):
        if histogram.custom:
            middle: Floats = (upper + lower) / 2
        else:
            middle = np.sqrt(upper * lower)
            middle = np.where(upper < 0, -middle, middle)
            middle = np.where((lower <= 0) & (upper >= 0), 0.0, middle)
        deltas = middle - mean
        terms = counts * deltas * deltas
    finite = bool(np.isfinite(terms).all())
    total = math.fsum(terms.tolist()) if finite else float(np.sum(terms))
    return divide(total, histogram.count)
