"""Fits lines through the floats of each window, and smooths them."""

from __future__ import annotations

import numpy as np

from frazil.query.promql.series.source import Times
from frazil.query.promql.windows.edges import Floats, Windows
from frazil.query.promql.windows.folds import in_order, increase
from frazil.query.promql.windows.rates import Result


def regression(windows: Windows, origin: Times) -> tuple[Floats, Floats]:
    """Returns slope and intercept of each window, with time counted from the origin."""
    shape = windows.shape
    count = windows.widths.astype(np.float64)
    sums = [(np.zeros(shape), np.zeros(shape)) for _ in range(4)]
    first = np.broadcast_to(windows.first, shape)
    constant = np.ones(shape, bool)
    with np.errstate(all="ignore"):
        for at, (value, active) in enumerate(in_order(windows)):
            constant &= ~active | (value == first) | (at == 0)
            x = (windows.times(windows.lo + at) - origin) / 1000
            for index, term in enumerate((x, value, x * value, x * x)):
                total, lost = increase(np.broadcast_to(term, shape), *sums[index])
                sums[index] = np.where(active, total, sums[index][0]), np.where(active, lost, sums[index][1])
        x, y, xy, xx = (total + lost for total, lost in sums)
        covariance, variance = xy - x * y / count, xx - x * x / count
        slope = covariance / variance
        intercept = y / count - slope * x / count
        flat = np.where(np.isinf(first), np.nan, 0.0)
        level = np.where(np.isinf(first), np.nan, first)
        return np.where(constant, flat, slope), np.where(constant, level, intercept)


def slopes(windows: Windows) -> Result:
    slope, _ = regression(windows, windows.times(windows.lo))
    return Result(slope, np.array(np.broadcast_to(windows.widths >= 2, windows.shape)))


def predictions(windows: Windows, now: Times, ahead: Floats) -> Result:
    """Returns where the line of each window is some seconds after now."""
    slope, intercept = regression(windows, now)
    with np.errstate(all="ignore"):
        found = slope * ahead + intercept
    return Result(found, np.array(np.broadcast_to(windows.widths >= 2, windows.shape)))


def smoothed(windows: Windows, level_factor: Floats, trend_factor: Floats) -> Result:
    """Returns the level of Holt's double exponential smoothing at the end of each window."""
    shape = windows.shape
    before, level = np.zeros(shape), np.array(np.broadcast_to(windows.first, shape))
    with np.errstate(all="ignore"):
        trend = np.array(np.broadcast_to(windows.values(windows.lo + 1) - windows.first, shape))
        for at, (value, active) in enumerate(in_order(windows)):
            if at == 0:
                continue
            if at > 1:
                next_trend = trend_factor * (level - before) + (1 - trend_factor) * trend
                trend = np.where(active, next_trend, trend)
            next_level = level_factor * value + (1 - level_factor) * (level + trend)
            before = np.where(active, level, before)
            level = np.where(active, next_level, level)
    return Result(level, np.array(np.broadcast_to(windows.widths >= 2, shape)))
