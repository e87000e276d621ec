"""Computes `anchored` and `smoothed` ranges of floats, which reach for samples outside the window."""

from __future__ import annotations

import numpy as np

from frazil.query.promql.series.source import Times
from frazil.query.promql.windows.edges import Floats, Windows, edges
from frazil.query.promql.windows.rates import Result, changes
from frazil.query.promql.windows.rates import resets as count_resets


def interpolate(
    time: Times, before: Floats, time_before: Times, after: Floats, time_after: Times, counter: bool
) -> Floats:
    """Returns the value on the line between two samples; a counter that dropped begins at 0."""
    base = np.where(after < before, 0.0, before) if counter else before
    with np.errstate(all="ignore"):
        return np.asarray(base + (after - base) * (time - time_before) / (time_after - time_before))


def edge_values(reach: Windows, range_ms: int, smoothed: bool, counter: bool) -> tuple[Windows, Result, Result]:
    """Returns the samples strictly inside the ranges, and the values at their left and right edges.

    `present` says where there is a result at all.
    """
    begins, ends = reach.ends - range_ms, reach.ends
    lo, hi, shape = reach.lo, reach.hi, reach.shape
    after_begin = np.minimum(np.maximum(edges(reach.samples, begins), lo), hi)
    upto_end = np.minimum(np.maximum(edges(reach.samples, ends), lo), hi)
    before_end = np.minimum(np.maximum(edges(reach.samples, ends - 1), lo), hi)
    # The newest sample that is not after the begin, else the first there is.
    left = np.maximum(after_begin - 1, lo)
    left_time = reach.times(left)
    left_value = reach.values(left)
    present = reach.widths > 0
    if smoothed:
        # The first sample that is not before the end, else the last there is.
        right = np.minimum(before_end, hi - 1)
        right_time, right_value = reach.times(right), reach.values(right)
        crosses = (left_time < begins) & (left + 1 < hi)
        left_value = np.where(
            crosses,
            interpolate(begins, left_value, left_time, reach.values(left + 1), reach.times(left + 1), counter),
            left_value,
        )
        beyond = (right_time > ends) & (right > lo)
        right_value = np.where(
            beyond,
            interpolate(ends, reach.values(right - 1), reach.times(right - 1), right_value, right_time, counter),
            right_value,
        )
        present = present & (reach.times(hi - 1) > begins) & (reach.times(left) <= ends) & (right_time > begins)
    else:
        right = upto_end - 1
        right_value = reach.values(right)
        present = present & (right >= lo) & (reach.times(right) > begins)
    inner_lo = np.where(left_time <= begins, left + 1, left)
    inner_hi = np.where(reach.times(right) >= ends, right, right + 1)
    inner = Windows(reach.samples, ends, 0, inner_lo, np.maximum(inner_hi, inner_lo))
    mask = np.array(np.broadcast_to(present, shape))
    return (
        inner,
        Result(np.array(np.broadcast_to(left_value, shape)), mask),
        Result(np.array(np.broadcast_to(right_value, shape)), mask),
    )


def growth(reach: Windows, range_ms: int, smoothed: bool, counter: bool, per_second: bool) -> Result:
    """Returns the growth between the edges of the range, without extrapolation."""
    inner, left, right = edge_values(reach, range_ms, smoothed, counter)
    with np.errstate(all="ignore"):
        total = right.values - left.values
        if counter:
            total = total + corrections(inner, left.values, right.values)
        if per_second:
            total = total / (range_ms / 1000)
    return Result(total, left.present)


def corrections(inner: Windows, left: Floats, right: Floats) -> Floats:
    """Adds up the values before each reset, from the left edge over the samples inside to the right edge."""
    before = left.copy()
    total = np.zeros(inner.shape)
    with np.errstate(all="ignore"):
        for at in range(inner.widest):
            value = inner.values(inner.lo + at)
            active = np.broadcast_to(inner.widths > at, inner.shape)
            total = np.where(active & (value < before), total + before, total)
            before = np.where(active, value, before)
        return np.where(right < before, total + before, total)


def anchored_windows(reach: Windows, range_ms: int) -> tuple[Windows, np.typing.NDArray[np.bool_]]:
    """Returns windows that begin with the newest sample before the range; and where any sample is in the range."""
    after_begin = np.minimum(np.maximum(edges(reach.samples, reach.ends - range_ms), reach.lo), reach.hi)
    windows = Windows(reach.samples, reach.ends, range_ms, np.maximum(after_begin - 1, reach.lo), reach.hi)
    return windows, np.array(np.broadcast_to(after_begin < reach.hi, reach.shape))


def anchored_count(reach: Windows, range_ms: int, resets: bool) -> Result:
    """Counts resets or changes, from the newest sample before the range on."""
    windows, present = anchored_windows(reach, range_ms)
    return Result((count_resets if resets else changes)(windows).values, present)
