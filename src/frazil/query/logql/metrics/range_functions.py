"""Has the functions of ranges over unwrapped values, in one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from frazil.query.logql.columns import Mask
from frazil.query.logql.metrics.matrix import Floats
from frazil.query.logql.metrics.windows import Integers, SortedSamples, Windows, gathered, reduced, seconds

_NEAR = 1.1
"""A sample this many average distances away from the edge of a window, or less, counts as being at the edge."""


@dataclass(frozen=True)
class WindowSamples:
    samples: SortedSamples
    windows: Windows
    starts: Integers
    stops: Integers
    parameter: float | None

    @property
    def counts(self) -> Integers:
        return self.stops - self.starts

    @property
    def filled(self) -> Mask:
        return np.greater(self.stops, self.starts)


def _sum(given: WindowSamples) -> Floats:
    return reduced(np.add, given.samples.values, given.starts, given.stops)


def _rate(given: WindowSamples) -> Floats:
    return _sum(given) / seconds(given.windows.length_ns)


def _mean(given: WindowSamples) -> Floats:
    return _sum(given) / np.maximum(given.counts, 1)


def _min(given: WindowSamples) -> Floats:
    return reduced(np.fmin, given.samples.values, given.starts, given.stops)


def _max(given: WindowSamples) -> Floats:
    return reduced(np.fmax, given.samples.values, given.starts, given.stops)


def _at(given: WindowSamples, places: Integers) -> Floats:
    values = np.append(given.samples.values, np.nan)
    return np.where(given.filled, values[np.where(given.filled, places, 0)], np.nan)


def _first(given: WindowSamples) -> Floats:
    return _at(given, given.starts)


def _last(given: WindowSamples) -> Floats:
    return _at(given, given.stops - 1)


def _variance(given: WindowSamples) -> Floats:
    """Works with the distances from each window's own mean, so that large values do not hide small differences."""
    means = _mean(given).ravel()
    result = np.full(given.starts.size, np.nan)
    for some, offsets, samples in gathered(given.starts, given.stops):
        sizes = np.diff(np.append(offsets, len(samples)))
        distances = given.samples.values[samples] - np.repeat(means[some], sizes)
        result[some] = np.add.reduceat(distances * distances, offsets) / sizes
    return result.reshape(given.starts.shape)


def _deviation(given: WindowSamples) -> Floats:
    return np.asarray(np.sqrt(_variance(given)))


def _quantile(given: WindowSamples) -> Floats:
    quantile = given.parameter or 0.0
    result = np.full(given.starts.size, np.nan)
    for some, offsets, samples in gathered(given.starts, given.stops):
        sizes = np.diff(np.append(offsets, len(samples)))
        window = np.repeat(np.arange(len(some)), sizes)
        # NaN is the smallest value, as in Prometheus.
        values = given.samples.values[samples]
        ordered = values[np.lexsort((values, ~np.isnan(values), window))]
        result[some] = _interpolated(ordered, offsets, sizes, quantile)
    return result.reshape(given.starts.shape)


def _interpolated(ordered: Floats, offsets: Integers, sizes: Integers, quantile: float) -> Floats:
    if np.isnan(quantile):
        return np.full(len(sizes), np.nan)
    if quantile < 0 or quantile > 1:
        return np.full(len(sizes), -np.inf if quantile < 0 else np.inf)
    rank = quantile * (sizes - 1)
    lower = np.maximum(np.floor(rank).astype(np.int64), 0)
    upper = np.minimum(lower + 1, sizes - 1)
    weight = rank - np.floor(rank)
    return np.asarray(ordered[offsets + lower] * (1 - weight) + ordered[offsets + upper] * weight)


def _counter_rate(given: WindowSamples) -> Floats:
    """Returns the increase a second of a counter that may begin again, carried on to the edges of the window."""
    values, times = given.samples.values, given.samples.times
    falls = np.zeros(len(values))
    falls[1:] = np.where(values[1:] < values[:-1], values[:-1], 0.0)
    first, last = _first(given), _last(given)
    resets = np.nan_to_num(reduced(np.add, falls, np.minimum(given.starts + 1, given.stops), given.stops))
    increase = last - first + resets
    some_times = np.append(times, 0)
    first_time = some_times[np.where(given.filled, given.starts, 0)]
    last_time = some_times[np.where(given.filled, given.stops - 1, 0)]
    ends = given.windows.ends[np.newaxis, :]
    to_start = (first_time - (ends - given.windows.length_ns)) / 1e9
    to_end = (ends - last_time) / 1e9
    sampled = (last_time - first_time) / 1e9
    average = sampled / np.maximum(given.counts - 1, 1)
    near = average * _NEAR
    to_start = np.where(to_start >= near, average / 2, to_start)
    to_end = np.where(to_end >= near, average / 2, to_end)
    to_zero = sampled * (first / increase)
    to_start = np.where((increase > 0) & (first >= 0) & (to_zero < to_start), to_zero, to_start)
    factor = (sampled + to_start + to_end) / sampled
    rate = increase * factor / seconds(given.windows.length_ns)
    return np.where(given.counts < 2, 0.0, np.where(sampled == 0, 0.0, rate))


RANGE_FUNCTIONS: dict[str, Callable[[WindowSamples], Floats]] = {
    "rate": _rate,
    "rate_counter": _counter_rate,
    "sum_over_time": _sum,
    "avg_over_time": _mean,
    "min_over_time": _min,
    "max_over_time": _max,
    "first_over_time": _first,
    "last_over_time": _last,
    "stddev_over_time": _deviation,
    "stdvar_over_time": _variance,
    "quantile_over_time": _quantile,
}
