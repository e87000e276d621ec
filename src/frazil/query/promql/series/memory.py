"""Is a source of samples in memory: for queries over what is there already, and for tests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from frazil.query.promql.histograms.histogram import Histogram
from frazil.query.promql.parse.regex import match_values
from frazil.query.promql.parse.tree import Matcher
from frazil.query.promql.series.labels import LabelTable
from frazil.query.promql.series.source import Hints, Samples, SeriesBlock, no_samples

Sample = tuple[int, float | Histogram, int]
"""Time, value and start time."""


def matching_rows(labels: LabelTable, matchers: Sequence[Matcher]) -> np.typing.NDArray[np.bool_]:
    """Says of each series whether all matchers accept it. Regular expressions see each distinct value once."""
    found = np.ones(labels.size, bool)
    for matcher in matchers:
        column = labels.get(matcher.name)
        if matcher.op in ("=", "!="):
            accepted = [value == matcher.value for value in column.values]
        else:
            accepted = match_values(matcher.value, column.values)
        wanted = np.array(accepted) if matcher.op in ("=", "=~") else ~np.array(accepted)
        found &= wanted[column.codes]
    return found


@dataclass
class MemorySource:
    """Keeps series as they are added. It may be queried at any moment."""

    series: dict[tuple[tuple[str, str], ...], dict[int, Sample]] = field(default_factory=dict)
    block: SeriesBlock | None = None

    def add(self, labels: Mapping[str, str], samples: Iterable[Sample]) -> None:
        known = self.series.setdefault(tuple(sorted((k, v) for k, v in labels.items() if v)), {})
        known.update((sample[0], sample) for sample in samples)
        self.block = None

    def whole(self) -> SeriesBlock:
        if self.block is None:
            self.block = build_block([dict(k) for k in self.series], [v.values() for v in self.series.values()])
        return self.block

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int, hints: Hints) -> Sequence[SeriesBlock]:
        block = self.whole()
        rows = np.flatnonzero(matching_rows(block.labels, matchers))
        if not len(rows):
            return []
        floats = narrow(block.floats, rows, start_ms, end_ms)
        histograms = None if block.histograms is None else narrow(block.histograms, rows, start_ms, end_ms)
        if histograms is not None and not histograms.count:
            histograms = None
        return [SeriesBlock(block.labels.take(rows), floats, histograms)]


def build_block(labels: list[dict[str, str]], series: list[Iterable[Sample]]) -> SeriesBlock:
    """Returns one block of the given series."""
    ordered = [sorted(samples, key=lambda s: s[0]) for samples in series]
    floats = samples_of([[s for s in one if not isinstance(s[1], Histogram)] for one in ordered], float)
    histograms = samples_of([[s for s in one if isinstance(s[1], Histogram)] for one in ordered], object)
    return SeriesBlock(LabelTable.of(labels), floats, histograms if histograms.count else None)


def samples_of(series: list[list[Sample]], kind: type) -> Samples:
    if not any(series):
        return no_samples(len(series))
    times = np.array([s[0] for one in series for s in one], np.int64)
    values: np.typing.NDArray[Any] = np.empty(len(times), kind)
    values[:] = [s[1] for one in series for s in one]
    starts = np.array([s[2] for one in series for s in one], np.int64)
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in series])]).astype(np.int64)
    return Samples(times, values, offsets, starts if starts.any() else None)


def narrow(samples: Samples, rows: np.typing.NDArray[np.int64], start_ms: int, end_ms: int) -> Samples:
    """Returns the samples of some series within a span of time."""
    found = samples.take(rows)
    return found.where((found.times >= start_ms) & (found.times <= end_ms))
