"""Computes rate, increase and delta, irate and idelta, resets and changes of floats."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from frazil.query.promql.series.source import Samples
from frazil.query.promql.windows.edges import Floats, Mask, Windows


@dataclass(frozen=True)
class Result:
    """Is one value for each series and step, and where there is one."""

    values: Floats
    present: Mask


def follows(samples: Samples) -> Mask:
    """Says of each sample whether another of its series is before it."""
    found = np.ones(samples.values.shape, bool)
    if samples.offsets is None:
        found[..., :1] = False
    else:
        starts = samples.offsets[:-1]
        found[starts[starts < len(found)]] = False
    return found


def start_resets(samples: Samples) -> Mask:
    """Says of each sample whether its start time shows that its counter began anew after the sample before."""
    assert samples.starts is not None
    starts, times = samples.starts, np.broadcast_to(samples.times, samples.values.shape)
    found = np.zeros(samples.values.shape, bool)
    start, before = starts[..., 1:], starts[..., :-1]
    time, time_before = times[..., 1:], times[..., :-1]
    valid = (start != before) & (start != 0) & (start < time)
    delta = (start == time_before) & (before != 0) & (before < time_before)
    found[..., 1:] = valid & ((start > time_before) | delta)
    return found & follows(samples)


def overlaps(samples: Samples) -> Mask:
    """Says of each sample whether its counter began before the sample before it, and not with that one."""
    assert samples.starts is not None
    starts, times = samples.starts, np.broadcast_to(samples.times, samples.values.shape)
    found = np.zeros(samples.values.shape, bool)
    start, before = starts[..., 1:], starts[..., :-1]
    found[..., 1:] = (start != 0) & (start < times[..., :-1]) & (start != before)
    return found & follows(samples)


def drops(samples: Samples) -> Mask:
    """Says of each sample whether its value is below the one before it, or its start time shows a reset."""
    found = np.zeros(samples.values.shape, bool)
    found[..., 1:] = samples.values[..., 1:] < samples.values[..., :-1]
    found &= follows(samples)
    if samples.starts is not None:
        found |= start_resets(samples)
    return found


def count_between(marks: Mask, windows: Windows) -> Floats:
    """Counts the marks of each window; the first sample of a window does not count."""
    counts = np.cumsum(marks, axis=-1, dtype=np.int64)
    last = counts.take(windows.hi - 1, axis=-1, mode="clip") if counts.size else np.zeros(windows.shape)
    first = counts.take(windows.lo, axis=-1, mode="clip") if counts.size else np.zeros(windows.shape)
    return np.asarray(last - first, np.float64)


def add_resets(windows: Windows, marks: Mask, total: Floats) -> None:
    """Adds, in order, the value before each reset of a window."""
    samples = windows.samples
    lo = np.broadcast_to(windows.lo, windows.shape)
    last = np.broadcast_to(windows.hi - 1, windows.shape)
    if samples.offsets is None:
        rows = np.flatnonzero(marks.any(axis=1))
        base = np.arange(len(rows))[:, None] * samples.values.shape[1]
        flat, marked = samples.values[rows].reshape(-1), marks[rows].reshape(-1)
        lo, last = lo[rows] + base, last[rows] + base
    else:
        rows = np.arange(len(total))
        flat, marked = samples.values, marks
    part = total[rows]
    counts = np.cumsum(marked, dtype=np.int64)
    at_most = len(counts) - 1
    first = counts[np.clip(lo, 0, at_most)]
    number = np.where(last > lo, counts[np.clip(last, 0, at_most)] - first, 0)
    positions = np.flatnonzero(marked)
    cells = np.flatnonzero(number.reshape(-1) > 0)
    first, number = first.reshape(-1)[cells], number.reshape(-1)[cells]
    sums = part.reshape(-1)[cells]
    for step in range(int(number.max()) if len(number) else 0):
        more = number > step
        sums[more] += flat[positions[first[more] + step] - 1]
    part.reshape(-1)[cells] = sums
    total[rows] = part


def extrapolated(windows: Windows, counter: bool, per_second: bool) -> Result:
    """Returns the growth over each window, extended to its edges as Prometheus does."""
    gaps = windows.widths - 1
    first_value = np.broadcast_to(windows.first, windows.shape)
    with np.errstate(all="ignore"):
        total = np.array(windows.last - first_value)
        if counter:
            marks = drops(windows.samples)
            if marks.any():
                add_resets(windows, marks, total)
        first, last = windows.times(windows.lo), windows.times(windows.hi - 1)
        begins = windows.ends - windows.range_ms
        to_start, to_end = (first - begins) / 1000, (windows.ends - last) / 1000
        sampled = (last - first) / 1000
        average = np.where(gaps > 0, sampled / np.maximum(gaps, 1), 0.0)
        threshold = average * 1.1
        near = np.where(to_start >= threshold, average / 2, to_start)
        present = np.broadcast_to(gaps >= 1, windows.shape)
        if counter:
            to_zero = sampled * (first_value / total)
            near = np.where((total > 0) & (first_value >= 0) & (to_zero < near), to_zero, near)
        if counter and windows.samples.starts is not None:
            began = windows.starts(windows.lo)
            known = (began != 0) & (began > begins) & (began < first) & (windows.widths > 0)
            near = np.where(known, 0.0, near)
            sampled = np.where(known, (last - began) / 1000, sampled)
            total = np.where(known, total + first_value, total)
            present = present | known
        to_end = np.where(to_end >= threshold, average / 2, to_end)
        factor = np.where(sampled == 0, 1.0, (sampled + near + to_end) / sampled)
        if per_second:
            factor = factor / (windows.range_ms / 1000)
        return Result(total * factor, np.array(present))


def instant(windows: Windows, counter: bool) -> Result:
    """Returns the growth between the last two samples, of counters for each second."""
    before, last = windows.values(windows.hi - 2), windows.last
    present = np.broadcast_to(windows.widths >= 2, windows.shape)
    with np.errstate(all="ignore"):
        growth = last - before
        if counter:
            reset = last < before
            if windows.samples.starts is not None:
                marks = start_resets(windows.samples)
                reset = reset | marks.take(windows.hi - 1, axis=-1, mode="clip")
            growth = np.where(reset, last, growth)
            growth = growth / ((windows.times(windows.hi - 1) - windows.times(windows.hi - 2)) / 1000)
    return Result(np.asarray(growth, np.float64), np.array(present))


def resets(windows: Windows) -> Result:
    return Result(count_between(drops(windows.samples), windows), np.array(windows.filled))


def changes(windows: Windows) -> Result:
    values = windows.samples.values
    differs = np.zeros(values.shape, bool)
    before, after = values[..., :-1], values[..., 1:]
    differs[..., 1:] = (before != after) & ~(np.isnan(before) & np.isnan(after))
    return Result(count_between(differs & follows(windows.samples), windows), np.array(windows.filled))
