"""Defines where the engine gets its samples: the only seam to storage."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from frazil.query.promql.parse.tree import Matcher
from frazil.query.promql.series.labels import LabelTable

Times = npt.NDArray[np.int64]
Values = npt.NDArray[Any]
# The bits of the float that says a series has ended.
STALE_BITS = 0x7FF0000000000002
STALE = float(np.array([STALE_BITS], np.int64).view(np.float64)[0])


@dataclass(frozen=True)
class Samples:
    """Has the samples of several series, by time.

    Series that share their times stand in a matrix: `values[series, i]` is at `times[i]`, and `offsets` is None. Else
    the samples stand one series after the other: those of series s are `values[offsets[s]:offsets[s + 1]]`.
    """

    times: Times
    """Milliseconds since 1970, ascending within a series, each once."""
    values: Values
    """Floats, or objects of `Histogram`."""
    offsets: Times | None = None
    starts: Times | None = None
    """When each sample's counter began, in milliseconds, shaped like `values`; 0 where it is not known."""

    @property
    def count(self) -> int:
        return int(self.values.size)

    @property
    def series(self) -> int:
        return len(self.values) if self.offsets is None else len(self.offsets) - 1

    def count_within(self, start_ms: int, end_ms: int) -> int:
        """Counts the samples in a span of time, both ends included."""
        if self.offsets is None:
            first, last = np.searchsorted(self.times, [start_ms, end_ms + 1])
            return int(last - first) * self.series
        return int(np.count_nonzero((self.times >= start_ms) & (self.times <= end_ms)))

    def ragged(self) -> Samples:
        """Returns the same samples with each series on its own."""
        if self.offsets is not None:
            return self
        rows, length = self.values.shape
        starts = None if self.starts is None else self.starts.reshape(-1)
        offsets = np.arange(rows + 1, dtype=np.int64) * length
        return Samples(np.tile(self.times, rows), self.values.reshape(-1), offsets, starts)

    def part(self, first: int, last: int) -> Samples:
        """Returns the series from first to before last."""
        if self.offsets is None:
            starts = None if self.starts is None else self.starts[first:last]
            return Samples(self.times, self.values[first:last], None, starts)
        begin, end = int(self.offsets[first]), int(self.offsets[last])
        starts = None if self.starts is None else self.starts[begin:end]
        offsets = self.offsets[first : last + 1] - begin
        return Samples(self.times[begin:end], self.values[begin:end], offsets, starts)

    def take(self, rows: Times) -> Samples:
        """Returns some of the series."""
        if self.offsets is None:
            starts = None if self.starts is None else self.starts[rows]
            return Samples(self.times, self.values[rows], None, starts)
        lengths = np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        at = np.arange(offsets[-1]) + np.repeat(self.offsets[rows] - offsets[:-1], lengths)
        starts = None if self.starts is None else self.starts[at]
        return Samples(self.times[at], self.values[at], offsets, starts)

    def where(self, wanted: npt.NDArray[np.bool_]) -> Samples:
        """Returns some of the samples; `wanted` is shaped like `values`."""
        if wanted.all():
            return self
        ragged = self.ragged()
        assert ragged.offsets is not None
        flat = wanted.reshape(-1)
        offsets = np.concatenate([[0], np.cumsum(flat)])[ragged.offsets]
        starts = None if ragged.starts is None else ragged.starts[flat]
        return Samples(ragged.times[flat], ragged.values[flat], offsets, starts)


@dataclass(frozen=True)
class SeriesBlock:
    """Is some series with their samples. A series may have floats and histograms, at different times."""

    labels: LabelTable
    floats: Samples
    """Of all series; one with a stale marker has it here, whatever its samples are."""
    histograms: Samples | None = None
    """Of all series, ragged; None if none has any."""


@dataclass(frozen=True)
class Hints:
    """Says what of the series is needed, so that a source may read less."""

    start_ms: int
    end_ms: int
    step_ms: int = 0
    range_ms: int = 0
    """How far windows reach back; 0 where only the newest sample of each step counts."""


class SampleSource(Protocol):
    """Finds series by their labels."""

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int, hints: Hints) -> Sequence[SeriesBlock]:
        """Returns the matching series that have samples in a span of time, both ends included.

        Each series stands in one block only. More samples than asked for do no harm.
        """


def no_samples(series: int) -> Samples:
    return Samples(np.empty(0, np.int64), np.empty(0), np.zeros(series + 1, np.int64))
