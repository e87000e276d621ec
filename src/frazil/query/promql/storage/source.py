"""Finds the samples of series for the engine: in the table, and in the log beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from frazil.engine.interface import QueryContext
from frazil.query.promql.parse.tree import METRIC_NAME, Matcher
from frazil.query.promql.series.memory import matching_rows
from frazil.query.promql.series.source import Hints, Samples, SeriesBlock
from frazil.query.promql.storage.merging import merge
from frazil.query.promql.storage.metric_names import NameCondition
from frazil.query.promql.storage.sample_parts import SamplePart
from frazil.query.promql.storage.shared_times import split_by_times, take_series, within
from frazil.query.promql.storage.stored_units import StoredUnit, keys_of, stored_units
from frazil.query.promql.storage.unit_index import LabelRules, label_bytes

Parts = tuple[list[SamplePart], list[SamplePart]]


class StoredSamples:
    """Belongs to one query."""

    def __init__(self, context: QueryContext, tenants: tuple[str, ...], promoted: Sequence[str] = ()) -> None:
        """`promoted` names attributes of resources that become labels."""
        self.context = context
        self.tenants = tenants
        self.rules = LabelRules(tuple(promoted), len(tenants) > 1)

    def select(self, matchers: Sequence[Matcher], start_ms: int, end_ms: int, hints: Hints) -> Sequence[SeriesBlock]:
        names = NameCondition.of(matchers)
        units = stored_units(self.context, self.tenants, self.rules, names, start_ms, end_ms)
        found = []
        for block in self._blocks(units, names, matchers):
            chosen = _chosen(block, matchers)
            if chosen is None:
                continue
            chosen = _narrowed(chosen, start_ms, end_ms)
            if chosen is not None:
                self.context.hold(_bytes(chosen))
                found.append(chosen)
        return found

    def _blocks(
        self, units: Sequence[StoredUnit], names: NameCondition, matchers: Sequence[Matcher]
    ) -> list[SeriesBlock]:
        """Returns blocks that have the wanted series, and perhaps others."""
        keys = keys_of(units)
        if names.exact is None or keys is None:
            return self._merged(units, names, matchers)
        key = ("promql", "merged", self.rules, names.matchers, keys)
        return self.context.cache.get(
            key, lambda: self._merged(units, names, names.matchers), lambda blocks: sum(map(_bytes, blocks))
        )

    def _merged(
        self, units: Sequence[StoredUnit], names: NameCondition, matchers: Sequence[Matcher]
    ) -> list[SeriesBlock]:
        floats: list[SamplePart] = []
        histograms: list[SamplePart] = []
        for unit in units:
            self.context.check()
            for shape in unit.wanted_shapes(names):
                parts = unit.parts(shape)
                floats += [_matching(part, matchers) for part in parts.floats]
                histograms += [_matching(part, matchers) for part in parts.histograms]
            if names.wants_targets and unit.has_targets:
                floats.append(_matching(unit.targets(), matchers))
        block = merge(floats, histograms)
        return [] if block is None else split_by_times(block)


def _matching(part: SamplePart, matchers: Sequence[Matcher]) -> SamplePart:
    return part.take(np.flatnonzero(matching_rows(part.labels, matchers)))


def _chosen(block: SeriesBlock, matchers: Sequence[Matcher]) -> SeriesBlock | None:
    others = [matcher for matcher in matchers if matcher.name != METRIC_NAME]
    wanted = matching_rows(block.labels, others) if others else np.ones(block.labels.size, bool)
    return _rows(block, wanted)


def _rows(block: SeriesBlock, wanted: np.ndarray) -> SeriesBlock | None:
    if wanted.all():
        return block
    rows = np.flatnonzero(wanted)
    if not len(rows):
        return None
    histograms = None if block.histograms is None else take_series(block.histograms, rows)
    return SeriesBlock(block.labels.take(rows), take_series(block.floats, rows), histograms)


def _narrowed(block: SeriesBlock, start_ms: int, end_ms: int) -> SeriesBlock | None:
    """Returns the series that have samples in a span of time, with these."""
    floats = within(block.floats, start_ms, end_ms)
    histograms = None if block.histograms is None else within(block.histograms, start_ms, end_ms)
    filled = _filled(floats)
    if histograms is not None:
        filled = filled | _filled(histograms)
        histograms = histograms if histograms.count else None
    return _rows(replace(block, floats=floats, histograms=histograms), filled)


def _filled(samples: Samples) -> np.ndarray:
    if samples.offsets is None:
        return np.full(samples.series, len(samples.times) > 0)
    return np.asarray(np.diff(samples.offsets) > 0)


def _bytes(block: SeriesBlock) -> int:
    found = label_bytes(block.labels)
    for samples, each in ((block.floats, 8), (block.histograms, 600)):
        if samples is not None:
            found += samples.times.nbytes + each * samples.count
            found += 0 if samples.starts is None else samples.starts.nbytes
    return found
