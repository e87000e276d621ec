"""Computes sums, means, extremes, quantiles and spread of the floats in each window."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from frazil.query.promql.windows.edges import Floats, Windows, gather
from frazil.query.promql.windows.folds import HUGE, extremes, finished, in_order, increase, sums
from frazil.query.promql.windows.rates import Result

# How many values are laid out at once where each window needs its values side by side.
LAID_OUT = 4_000_000
# Where values are further from 0 than this many times their spread, any two ways to compute it differ visibly.
MEAN_BY_SPREAD = 1e4


def result(windows: Windows, values: Floats) -> Result:
    return Result(np.array(np.broadcast_to(values, windows.shape), np.float64), np.array(windows.filled))


def sum_over(windows: Windows) -> Result:
    return result(windows, finished(*sums(windows)))


def mean_over(windows: Windows) -> Result:
    values = windows.samples.values
    finite = np.abs(values[np.isfinite(values)]) if values.size else values
    if finite.size and finite.max() > HUGE:
        return result(windows, mean_in_order(windows))
    total, lost = sums(windows)
    count = np.maximum(windows.widths, 1)
    with np.errstate(all="ignore"):
        return result(windows, np.where(np.isfinite(total), total / count + lost / count, total))


def mean_in_order(windows: Windows) -> Floats:
    """Returns means; where a sum would be infinite, they go on as running means from there."""
    total, lost = np.zeros(windows.shape), np.zeros(windows.shape)
    mean = np.zeros(windows.shape)
    running = np.zeros(windows.shape, bool)
    with np.errstate(all="ignore"):
        for at, (value, active) in enumerate(in_order(windows)):
            if at == 0:
                total = np.where(active, value, 0.0)
                continue
            count = at + 1
            grown, more = increase(value, total, lost)
            overflows = active & ~running & np.isinf(grown)
            mean = np.where(overflows, total / (count - 1), mean)
            lost = np.where(overflows, lost / (count - 1), lost)
            plain = active & ~running & ~overflows
            running = running | overflows
            share = (count - 1) / count
            next_mean, next_lost = increase(value / count, share * mean, share * lost)
            stepping = active & running
            mean = np.where(stepping, next_mean, mean)
            total = np.where(plain, grown, total)
            lost = np.where(plain, more, np.where(stepping, next_lost, lost))
        widths = np.maximum(windows.widths, 1)
        return np.where(running, mean + lost, total / widths + lost / widths)


def count_over(windows: Windows) -> Result:
    return result(windows, windows.widths.astype(np.float64))


def present_over(windows: Windows) -> Result:
    return result(windows, np.ones(1))


def least_over(windows: Windows) -> Result:
    return result(windows, extremes(windows, np.fmin))


def greatest_over(windows: Windows) -> Result:
    return result(windows, extremes(windows, np.fmax))


def first_over(windows: Windows) -> Result:
    return result(windows, windows.first)


def last_over(windows: Windows) -> Result:
    return result(windows, windows.last)


def time_of_first(windows: Windows) -> Result:
    return result(windows, windows.times(windows.lo) / 1000)


def time_of_last(windows: Windows) -> Result:
    return result(windows, windows.times(windows.hi - 1) / 1000)


def time_of_extreme(windows: Windows, greatest: bool) -> Result:
    """Returns when the last of the least (or greatest) values was; NaN gives way to anything."""
    best = np.array(np.broadcast_to(windows.first, windows.shape))
    when = np.array(np.broadcast_to(windows.times(windows.lo), windows.shape))
    for at, (value, active) in enumerate(in_order(windows)):
        better = (value >= best) if greatest else (value <= best)
        better = active & (better | np.isnan(best))
        best = np.where(better, value, best)
        when = np.where(better, windows.times(windows.lo + at), when)
    return result(windows, when / 1000)


def variance_over(windows: Windows) -> Result:
    """Returns the population's variance."""
    total, lost = sums(windows)
    count = windows.widths
    squares, distances = np.zeros(windows.shape), np.zeros(windows.shape)
    even = bool(count.size) and int(count.min()) == windows.widest
    with np.errstate(all="ignore"):
        mean = (total + lost) / count
        for at in range(windows.widest):
            distance = windows.values(windows.lo + at) - mean
            if not even:
                distance = np.where(count > at, distance, 0.0)
            distances += distance
            distance *= distance
            squares += distance
        spread = (squares - distances * distances / count) / count
        sound = (np.abs(mean) <= MEAN_BY_SPREAD * np.sqrt(spread)) | (mean == 0) | (count == 0)
        if not sound.all():
            return result(windows, variance_in_order(windows))
        return result(windows, spread)


def variance_in_order(windows: Windows) -> Floats:
    """Returns variances by Welford's method with compensated terms, value by value as Prometheus does."""
    count = np.zeros(windows.shape)
    mean, mean_lost = np.zeros(windows.shape), np.zeros(windows.shape)
    spread, spread_lost = np.zeros(windows.shape), np.zeros(windows.shape)
    with np.errstate(all="ignore"):
        for value, active in in_order(windows):
            count = count + active
            delta = value - (mean + mean_lost)
            next_mean, next_lost = increase(delta / count, mean, mean_lost)
            mean, mean_lost = np.where(active, next_mean, mean), np.where(active, next_lost, mean_lost)
            term = delta * (value - (mean + mean_lost))
            next_spread, next_lost = increase(term, spread, spread_lost)
            spread = np.where(active, next_spread, spread)
            spread_lost = np.where(active, next_lost, spread_lost)
        return (spread + spread_lost) / count


def deviation_over(windows: Windows) -> Result:
    found = variance_over(windows)
    with np.errstate(all="ignore"):
        return Result(np.sqrt(found.values), found.present)


def laid_out(windows: Windows) -> Iterator[tuple[slice, Floats, Floats]]:
    """Returns the values of each window side by side, sorted with NaN first, and how many there are.

    It goes through the steps piece by piece, to bound the memory. Positions that are in no window come last.
    """
    series, steps = windows.shape
    widest = max(windows.widest, 1)
    piece = max(1, LAID_OUT // max(1, series * widest))
    for begin in range(0, steps, piece):
        part = slice(begin, begin + piece)
        lo, widths = windows.lo[..., part], windows.widths[..., part]
        values = gather(windows.samples.values, lo[..., None] + np.arange(widest))
        inside = np.arange(widest) < widths[..., None]
        # NaN sorts as the least of all: it is kept apart by a key below -Inf.
        ordered = sort_with_nan_first(values, np.broadcast_to(inside, values.shape))
        yield part, ordered, np.broadcast_to(widths, values.shape[:-1]).astype(np.float64)


def sort_with_nan_first(values: Floats, inside: np.typing.NDArray[np.bool_]) -> Floats:
    """Sorts along the last axis: NaN, then numbers, then what is not inside."""
    missing = np.isnan(values) & inside
    numbers = np.where(inside, values, np.nan)
    ordered = np.sort(numbers, axis=-1)
    if not missing.any():
        return ordered
    nans = missing.sum(axis=-1)
    at = np.arange(values.shape[-1]) - nans[..., None]
    found = np.take_along_axis(ordered, np.maximum(at, 0), axis=-1)
    return np.where(at < 0, np.nan, found)


def quantiles(ordered: Floats, count: Floats, q: Floats) -> Floats:
    """Returns quantiles of values that are sorted with NaN first, linear between neighbours."""
    last = np.maximum(count - 1, 0)
    with np.errstate(all="ignore"):
        rank = q * (count - 1)
        below = np.clip(np.floor(rank), 0, last)
        below = np.where(np.isnan(below), 0, below).astype(np.int64)
        above = np.minimum(below + 1, last.astype(np.int64))
        weight = rank - np.floor(rank)
        low = np.take_along_axis(ordered, below[..., None], axis=-1)[..., 0]
        high = np.take_along_axis(ordered, above[..., None], axis=-1)[..., 0]
        found = low * (1 - weight) + high * weight
    found = np.where(q < 0, -np.inf, np.where(q > 1, np.inf, found))
    return np.where(np.isnan(q) | (count == 0), np.nan, found)


def quantile_over(windows: Windows, q: Floats) -> Result:
    """Returns a quantile of each window; `q` has a value for each step."""
    found = np.empty(windows.shape)
    for part, ordered, count in laid_out(windows):
        found[:, part] = quantiles(ordered, count, np.broadcast_to(q[part], count.shape))
    return result(windows, found)


def median_deviation_over(windows: Windows) -> Result:
    """Returns the median distance from the median; NaN if any value is."""
    found = np.empty(windows.shape)
    half = np.array(0.5)
    for part, ordered, count in laid_out(windows):
        median = quantiles(ordered, count, np.broadcast_to(half, count.shape))
        inside = np.arange(ordered.shape[-1]) < count[..., None]
        with np.errstate(all="ignore"):
            distances = sort_with_nan_first(np.abs(ordered - median[..., None]), inside)
        spoiled = (np.isnan(ordered) & inside).any(axis=-1)
        deviation = quantiles(distances, count, np.broadcast_to(half, count.shape))
        found[:, part] = np.where(spoiled, np.nan, deviation)
    return result(windows, found)
