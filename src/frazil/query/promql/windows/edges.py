"""Finds which samples are in which window."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from frazil.query.promql.series.source import Samples, Times

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Windows:
    """Has the windows (end - range, end] of several series: the positions `lo` to before `hi` of `samples`.

    Positions have one row for each series, or one for all where the series share their times.
    """

    samples: Samples
    ends: Times
    range_ms: int
    lo: Times
    hi: Times

    @property
    def shape(self) -> tuple[int, int]:
        return self.samples.series, len(self.ends)

    @property
    def widths(self) -> Times:
        """How many samples are in each window."""
        return self.hi - self.lo

    @property
    def filled(self) -> Mask:
        return np.broadcast_to(self.widths > 0, self.shape)

    @property
    def widest(self) -> int:
        return int(self.widths.max()) if self.lo.size else 0

    def values(self, at: Times) -> Floats:
        """Returns the values at positions; those outside give any value."""
        return gather(self.samples.values, at)

    def times(self, at: Times) -> Times:
        return gather(self.samples.times, at)

    def starts(self, at: Times) -> Times:
        assert self.samples.starts is not None
        return gather(self.samples.starts, at)

    @property
    def first(self) -> Floats:
        return self.values(self.lo)

    @property
    def last(self) -> Floats:
        return self.values(self.hi - 1)


def gather(values: npt.NDArray[Any], at: Times) -> npt.NDArray[Any]:
    length = values.shape[-1]
    if not length:
        shape = at.shape if values.ndim == 1 else (values.shape[0], *at.shape)
        return np.zeros(shape, values.dtype)
    return values.take(at, axis=-1, mode="clip")


def windows_of(samples: Samples, ends: Times, range_ms: int) -> Windows:
    """Returns the windows (end - range, end] of all series."""
    return Windows(samples, ends, range_ms, edges(samples, ends - range_ms), edges(samples, ends))


def edges(samples: Samples, moments: Times) -> Times:
    """Returns for each series and moment the position behind the last sample that is not later.

    The moments must not descend.
    """
    if samples.offsets is None:
        return np.searchsorted(samples.times, moments, "right").astype(np.int64)
    offsets, series, steps = samples.offsets, samples.series, len(moments)
    if not samples.times.size:
        return np.zeros((series, steps), np.int64)
    lengths = np.diff(offsets)
    if steps == 1:
        early = np.concatenate([[0], np.cumsum(samples.times <= moments[0])])
        return np.asarray(offsets[:-1] + early[offsets[1:]] - early[offsets[:-1]])[:, None]
    bins = first_moments(samples.times, moments)
    bins += np.repeat(np.arange(series, dtype=np.int64) * (steps + 1), lengths)
    counts = np.bincount(bins, minlength=series * (steps + 1)).reshape(series, steps + 1)[:, :steps]
    return np.asarray(counts.cumsum(axis=1) + offsets[:-1, None])


def first_moments(times: Times, moments: Times) -> Times:
    """Returns for each time the first moment that is not earlier."""
    step = int(moments[1] - moments[0])
    if step > 0 and int(moments[-1] - moments[0]) == step * (len(moments) - 1) and (np.diff(moments) == step).all():
        found = -((int(moments[0]) - times) // step)
        return np.clip(found, 0, len(moments))
    return np.searchsorted(moments, times, "left").astype(np.int64)
