"""Lists the labels of series that have samples in a span of time, without reading the samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from frazil.engine.interface import QueryContext
from frazil.query.promql.parse.tree import Matcher
from frazil.query.promql.series.labels import LabelTable, concatenate
from frazil.query.promql.series.memory import matching_rows
from frazil.query.promql.storage.arrow_columns import Mask
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
                rows = np.flatnonzero(matching_rows(table, selector))
                if len(rows):
                    yield table if len(rows) == table.size else table.take(rows)

    def _of_unit(self, unit: StoredUnit, names: NameCondition) -> Iterator[LabelTable]:
        index = unit.index
        for shape in unit.wanted_shapes(names):
            if shape in (Shape.NUMBER, Shape.NATIVE):
                series = np.flatnonzero((index.shapes == shape) & self._touched(index.firsts, index.lasts))
                yield index.labels.take(series)
                continue
            for part in unit.parts(shape).floats:
                touched = self._touched(part.times[part.offsets[:-1]], part.times[part.offsets[1:] - 1])
                yield part.labels.take(np.flatnonzero(touched))
        if names.wants_targets and unit.has_targets:
            part = unit.targets()
            if part.labels.size:
                touched = self._touched(part.times[part.offsets[:-1]], part.times[part.offsets[1:] - 1])
                yield part.labels.take(np.flatnonzero(touched))

    def _touched(self, firsts: np.ndarray, lasts: np.ndarray) -> Mask:
        found = np.ones(len(firsts), bool)
        if self._start_ms is not None:
            found &= lasts >= self._start_ms
        if self._end_ms is not None:
            found &= firsts <= self._end_ms
        return found
