"""Lists the labels of series that have samples in a span of time, without reading the samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from frazil.engine.interface import QueryContext
from frazil.query.promql.parse.tree import Matcher
from frazil.query.promql.series.labels import LabelTable, concatenate
from frazil.query.promql.series.memory import matching_rows
from frazil.query.promql.storage.arrow_columns import Ints, Mask
from frazil.query.promql.storage.metric_names import NameCondition
from frazil.query.promql.storage.stored_units import StoredUnit, stored_units
from frazil.query.promql.storage.unit_index import LabelRules, Shape


class SeriesListing:
    """Belongs to one query. Times are in milliseconds, and None stands for all time."""

    def __init__(
        self,
        context: QueryContext,
        tenants: tuple[str, ...],
        rules: LabelRules,
        start_ms: int | None,
        end_ms: int | None,
    ) -> None:
        self._context = context
        self._tenants = tenants
        self._rules = rules
        self._start_ms, self._end_ms = start_ms, end_ms

    def series(self, selectors: Sequence[Sequence[Matcher]]) -> LabelTable:
        """Returns the series that one of the selectors matches, each once."""
        tables = [table for selector in selectors for table in self.tables(selector)]
        self._context.hold(sum(8 * table.size * (1 + len(table.columns)) for table in tables))
        if not tables:
            return LabelTable(0, {})
        whole = concatenate(tables)
        return whole.take(whole.groups()[0])

    def names(self, selectors: Sequence[Sequence[Matcher]]) -> list[str]:
        found: set[str] = set()
        for selector in selectors or [()]:
            for table in self.tables(selector):
                found |= {name for name, column in table.columns.items() if column.codes.any()}
        return sorted(found)

    def values(self, label: str, selectors: Sequence[Sequence[Matcher]]) -> list[str]:
        found: set[str] = set()
        for selector in selectors or [()]:
            for table in self.tables(selector):
                if label in table.columns:
                    column = table.columns[label]
                    used = np.zeros(len(column.values), bool)
                    used[column.codes] = True
                    found |= {column.values[code] for code in np.flatnonzero(used).tolist() if code}
        return sorted(found)

    def tables(self, selector: Sequence[Matcher]) -> Iterator[LabelTable]:
        """Yields the matching series of each unit."""
        names = NameCondition.of(selector)
        for unit in stored_units(self._context, self._tenants, self._rules, names, self._start_ms, self._end_ms):
            self._context.check()
            for table in self._of_unit(unit, names):
                wanted = matching_rows(table, selector)
                if wanted.any():
                    yield table if wanted.all() else table.take(np.flatnonzero(wanted))

    def _of_unit(self, unit: StoredUnit, names: NameCondition) -> Iterator[LabelTable]:
        index = unit.index
        for shape in unit.wanted_shapes(names):
            if shape in (Shape.NUMBER, Shape.NATIVE):
                of_shape = index.shapes == shape
                if not of_shape.all():
                    yield index.labels.take(np.flatnonzero(of_shape & self._touched(index.times, index.offsets)))
                else:
                    yield self._within(index.labels, index.times, index.offsets)
                continue
            for part in unit.parts(shape).floats:
                yield self._within(part.labels, part.times, part.offsets)
        if names.wants_targets and unit.has_targets:
            targets = unit.targets()
            yield self._within(targets.labels, targets.times, targets.offsets)

    def _within(self, labels: LabelTable, times: Ints, offsets: Ints) -> LabelTable:
        touched = self._touched(times, offsets)
        return labels if touched.all() else labels.take(np.flatnonzero(touched))

    def _touched(self, times: Ints, offsets: Ints) -> Mask:
        """Returns which series have samples in the span of time; `offsets` says where the times of each begin."""
        found = np.ones(len(offsets) - 1, bool)
        if not len(found):
            return found
        if self._start_ms is not None:
            found &= times[offsets[1:] - 1] >= self._start_ms
        if self._end_ms is not None:
            found &= times[offsets[:-1]] <= self._end_ms
        return found
