"""Folds the values of each window into one: by doubling, so that nothing cancels out and NaN stays where it is."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from frazil.query.promql.windows.edges import Floats, Mask, Windows, gather

# From here on sums may overflow; then they are taken one by one, in Prometheus's order.
HUGE = 1e290


def two_sum(left: Floats, right: Floats) -> tuple[Floats, Floats]:
    """Returns a sum and what rounding lost of it; nothing is lost of a sum that is infinite."""
    total = left + right
    part = total - left
    lost = (left - (total - part)) + (right - part)
    if not np.isfinite(total).all():
        lost[~np.isfinite(total)] = 0.0
    return total, lost


def sums(windows: Windows) -> tuple[Floats, Floats]:
    """Returns the sum of each window and its compensation. Windows without samples give 0."""
    values = windows.samples.values
    with np.errstate(all="ignore"):
        finite = np.abs(values[np.isfinite(values)]) if values.size else values
        if finite.size and finite.max() > HUGE:
            return sums_in_order(windows)
        if (values >= 0).all():
            # Nothing cancels out, so that nothing is lost that would show.
            return doubled(windows), np.zeros(1)
        return sums_by_doubling(windows)


def doubled(windows: Windows) -> Floats:
    """Adds spans of 1, 2, 4… values as they are."""
    widths, widest = windows.widths, windows.widest
    total = np.zeros(windows.shape)
    level, position, span = windows.samples.values, windows.lo, 1
    while span <= widest:
        wanted = (widths & span) > 0
        if wanted.all():
            total += gather(level, position)
            position = position + span
        elif wanted.any():
            total += np.where(wanted, gather(level, position), 0.0)
            position = position + np.where(wanted, span, 0)
        if 2 * span <= widest:
            level = level[..., :-span] + level[..., span:]
        span *= 2
    return total


def sums_in_order(windows: Windows) -> tuple[Floats, Floats]:
    """Adds value after value with Neumaier's compensation, as Prometheus does."""
    total, lost = np.zeros(windows.shape), np.zeros(windows.shape)
    with np.errstate(all="ignore"):
        for at, (value, active) in enumerate(in_order(windows)):
            if at == 0:
                grown, more = np.array(np.broadcast_to(value, windows.shape)), np.zeros(windows.shape)
            else:
                grown, more = increase(value, total, lost)
            total = np.where(active, grown, total)
            lost = np.where(active, more, lost)
    return total, lost


def increase(value: Floats, total: Floats, lost: Floats) -> tuple[Floats, Floats]:
    """Adds a value to a compensated sum."""
    grown = total + value
    more = lost + np.where(np.abs(total) >= np.abs(value), (total - grown) + value, (value - grown) + total)
    return grown, np.where(np.isinf(grown), 0.0, more)


def in_order(windows: Windows) -> Iterator[tuple[Floats, Mask]]:
    """Returns the first value of all windows, then the second, and which windows have one."""
    widths = windows.widths
    for at in range(windows.widest):
        yield windows.values(windows.lo + at), np.broadcast_to(widths > at, windows.shape)


def sums_by_doubling(windows: Windows) -> tuple[Floats, Floats]:
    """Adds spans of 1, 2, 4… values, each with its compensation; a window is made of at most one of each."""
    widths, widest = windows.widths, windows.widest
    total = np.zeros(windows.shape)
    lost = np.zeros(windows.shape)
    level, level_lost = windows.samples.values, np.zeros(windows.samples.values.shape)
    position, span = windows.lo, 1
    with np.errstate(all="ignore"):
        while span <= widest:
            wanted = (widths & span) > 0
            if wanted.any():
                part, part_lost = gather(level, position), gather(level_lost, position)
                grown, more = two_sum(total, part)
                more += lost + part_lost
                if wanted.all():
                    total, lost, position = grown, more, position + span
                else:
                    total, lost = np.where(wanted, grown, total), np.where(wanted, more, lost)
                    position = position + np.where(wanted, span, 0)
            if 2 * span <= widest:
                doubled, more = two_sum(level[..., :-span], level[..., span:])
                level_lost = level_lost[..., :-span] + level_lost[..., span:] + more
                level = doubled
            span *= 2
    return total, lost


def finished(total: Floats, lost: Floats) -> Floats:
    with np.errstate(all="ignore"):
        return np.where(np.isfinite(total), total + lost, total)


def extremes(windows: Windows, pick: Callable[[Floats, Floats], Floats]) -> Floats:
    """Returns the least or greatest value of each window, from two spans of a power of two that overlap."""
    widest = windows.widest
    levels = [windows.samples.values]
    span = 1
    while 2 * span <= widest:
        levels.append(pick(levels[-1][..., :-span], levels[-1][..., span:]))
        span *= 2
    sizes = np.frexp(np.maximum(windows.widths, 1).astype(np.float64))[1] - 1
    result = np.full(windows.shape, np.nan)
    for size in np.unique(sizes):
        level = levels[min(int(size), len(levels) - 1)]
        found = pick(gather(level, windows.lo), gather(level, windows.hi - (1 << int(size))))
        result = np.where(sizes == size, found, result)
    return result
