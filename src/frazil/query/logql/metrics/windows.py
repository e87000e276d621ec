"""Works out samples of windows: `(step - range, step]` of each series at each step."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from frazil.query.logql.columns import Mask
from frazil.query.logql.metrics.matrix import Floats, Steps

Integers = NDArray[np.int64]

_SECOND = 1_000_000_000
_MOST_CELLS = 4_000_000
"""Counting by cells of a grid takes at most this many of them; else samples are sorted."""
_MOST_GATHERED = 1_000_000
"""So many samples are gathered at a time where windows overlap."""


@dataclass(frozen=True)
class Windows:
    """Has the ends of windows in time, evenly spaced, and their length."""

    ends: Steps
    length_ns: int

    @property
    def first_ns(self) -> int:
        """Returns the first moment of the first window."""
        return int(self.ends[0]) - self.length_ns + 1

    @property
    def last_ns(self) -> int:
        return int(self.ends[-1])

    @property
    def step_ns(self) -> int:
        return int(self.ends[1] - self.ends[0]) if len(self.ends) > 1 else max(self.length_ns, 1)

    def covers(self, times: Integers) -> Mask:
        """Returns which moments are in some window."""
        if self.step_ns <= self.length_ns:
            return np.asarray((times >= self.first_ns) & (times <= self.last_ns))
        following = np.searchsorted(self.ends, times)
        inside = following < len(self.ends)
        ends = self.ends[np.minimum(following, len(self.ends) - 1)]
        return inside & (times > ends - self.length_ns)


class SampleLog:
    """Collects samples of series, in any order."""

    def __init__(self) -> None:
        self._series: list[Integers] = []
        self._times: list[Integers] = []
        self._values: list[Floats] = []

    def add(self, series: Integers, times: Integers, values: Floats) -> int:
        """Adds samples, and returns the bytes that they take."""
        self._series.append(series)
        self._times.append(times)
        self._values.append(values)
        return series.nbytes + times.nbytes + values.nbytes

    def sorted(self) -> SortedSamples:
        if not self._series:
            nothing = np.zeros(0, np.int64)
            return SortedSamples(nothing, nothing, np.zeros(0))
        series, times = np.concatenate(self._series), np.concatenate(self._times)
        order = np.lexsort((times, series))
        return SortedSamples(series[order], times[order], np.concatenate(self._values)[order])


@dataclass(frozen=True)
class SortedSamples:
    """Has samples by series, and those of each series by time."""

    series: Integers
    times: Integers
    values: Floats

    def bounds(self, series: int, windows: Windows) -> tuple[Integers, Integers]:
        """Returns where the samples of each window begin and end, for all series and steps."""
        starts = np.zeros((series, len(windows.ends)), np.int64)
        stops = np.zeros_like(starts)
        edges = np.searchsorted(self.series, np.arange(series + 1))
        for number in range(series):
            first, last = edges[number], edges[number + 1]
            times = self.times[first:last]
            starts[number] = first + np.searchsorted(times, windows.ends - windows.length_ns, side="right")
            stops[number] = first + np.searchsorted(times, windows.ends, side="right")
        return starts, stops


class CountGrid:
    """Adds up whole numbers of windows, in cells that no window divides. It keeps no samples."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        step = windows.step_ns
        self._cell_ns = int(np.gcd(step, windows.length_ns)) if len(windows.ends) > 1 else windows.length_ns
        self._start = int(windows.ends[0]) - windows.length_ns
        self._cells = (windows.last_ns - self._start) // self._cell_ns
        self._sums = np.zeros((0, self._cells), np.int64)
        self._counts = np.zeros((0, self._cells), np.int64)

    @staticmethod
    def suits(windows: Windows) -> bool:
        if windows.length_ns == 0:
            return False
        cell = int(np.gcd(windows.step_ns, windows.length_ns)) if len(windows.ends) > 1 else windows.length_ns
        return (windows.last_ns - windows.first_ns + 1) // cell <= _MOST_CELLS // 64

    def add(self, series: Integers, times: Integers, values: Integers | None) -> int:
        """Adds samples, and returns by how many bytes the grid has grown."""
        needed = int(series.max(initial=-1)) + 1
        grown = self._grow(needed)
        cells = (times - self._start - 1) // self._cell_ns
        keys = series * self._cells + cells
        size = needed * self._cells
        counts = np.bincount(keys, minlength=size).reshape(needed, self._cells)
        self._counts[:needed] += counts
        if values is not None:
            np.add.at(self._sums[:needed].reshape(-1), keys, values)
        return grown

    def _grow(self, needed: int) -> int:
        have = len(self._counts)
        if needed <= have:
            return 0
        rows = max(needed, 2 * have)
        extra = np.zeros((rows - have, self._cells), np.int64)
        self._counts = np.concatenate([self._counts, extra])
        self._sums = np.concatenate([self._sums, extra])
        return 2 * extra.nbytes

    def totals(self, series: int) -> tuple[Integers, Integers]:
        """Returns the sum of values and the number of samples of each window."""
        width = self._windows.length_ns // self._cell_ns
        stride = self._windows.step_ns // self._cell_ns if len(self._windows.ends) > 1 else 1
        at = np.arange(len(self._windows.ends)) * stride
        return _slid(self._sums[:series], at, width), _slid(self._counts[:series], at, width)


def _slid(cells: Integers, at: Integers, width: int) -> Integers:
    running = np.zeros((cells.shape[0], cells.shape[1] + 1), np.int64)
    np.cumsum(cells, axis=1, out=running[:, 1:])
    return np.asarray(running[:, at + width] - running[:, at])


def reduced(function: np.ufunc, values: Floats, starts: Integers, stops: Integers) -> Floats:
    """Returns what the function makes of each window; of an empty one NaN."""
    result = np.full(starts.shape, np.nan)
    filled = stops > starts
    if not filled.any():
        return result
    edges = np.stack([starts[filled], stops[filled]], axis=1).ravel()
    padded = np.append(values, 0.0)
    result[filled] = function.reduceat(padded, edges)[::2]
    return result


def gathered(starts: Integers, stops: Integers) -> Iterator[tuple[Integers, Integers, Integers]]:
    """Yields some windows at a time: their numbers, where each begins among the gathered samples, and the samples."""
    flat_starts, lengths = starts.ravel(), (stops - starts).ravel()
    windows = np.flatnonzero(lengths)
    at = 0
    ends = np.cumsum(lengths[windows])
    while at < len(windows):
        before = ends[at - 1] if at else 0
        upto = max(int(np.searchsorted(ends, before + _MOST_GATHERED, side="right")), at + 1)
        some = windows[at:upto]
        sizes = lengths[some]
        offsets = np.cumsum(sizes) - sizes
        samples = np.arange(int(sizes.sum())) - np.repeat(offsets, sizes) + np.repeat(flat_starts[some], sizes)
        yield some, offsets, samples
        at = upto


def seconds(nanoseconds: int) -> float:
    return nanoseconds / _SECOND
