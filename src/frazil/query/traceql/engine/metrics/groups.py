"""Numbers groups of spans by the values of some fields, the same in each batch of spans."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from frazil.query.traceql.engine.codes import distinct_codes
from frazil.query.traceql.engine.metrics.series import Label, Labels, text
from frazil.query.traceql.engine.spans import Spans
from frazil.query.traceql.engine.values import Floats, Ints
from frazil.query.traceql.parse.tree import Field, Static


class Groups:
    def __init__(self, by: Sequence[Field]) -> None:
        self._by = by
        self._numbers: dict[tuple[Static, ...], int] = {}

    @property
    def count(self) -> int:
        return len(self._numbers)

    def numbers(self, spans: Spans, rows: Ints) -> Ints:
        """Returns the number of each row's group."""
        codes = np.zeros(len(rows), np.int64)
        combinations: list[tuple[Static, ...]] = [()]
        for field in self._by:
            own, statics = spans.column(field).take(rows).distinct()
            used, codes = distinct_codes(codes * len(statics) + own)
            pairs = [divmod(code, len(statics)) for code in used.tolist()]
            combinations = [(*combinations[before], statics[place]) for before, place in pairs]
        if not len(rows):
            return codes
        known = [self._numbers.setdefault(each, len(self._numbers)) for each in combinations]
        found: Ints = np.array(known, np.int64)[codes]
        return found

    def combinations(self) -> list[tuple[Static, ...]]:
        """Returns the values of each group."""
        return list(self._numbers)

    def labels(self) -> list[Labels]:
        """Returns the labels of each group. A value that is missing is left out, but not all of them are."""
        found = []
        for combination in self._numbers:
            labels = [
                Label(str(field), value)
                for field, value in zip(self._by, combination, strict=True)
                if value.value is not None
            ]
            missing = [Label(str(self._by[0]), text("nil"))] if self._by else []
            found.append(tuple(labels or missing))
        return found


class Grid2D:
    """Is a matrix of groups and steps, which grows with the groups."""

    def __init__(self, steps: int, empty: float) -> None:
        self._steps = steps
        self._empty = empty
        self._cells = np.full((0, steps), empty)

    def grow(self, groups: int) -> int:
        """Makes room, and returns how many bytes that took."""
        if groups <= len(self._cells):
            return 0
        more = np.full((max(groups, 2 * len(self._cells)) - len(self._cells), self._steps), self._empty)
        self._cells = np.concatenate([self._cells, more])
        return more.nbytes

    @property
    def flat(self) -> Floats:
        return self._cells.reshape(-1)

    def row(self, group: int) -> Floats:
        found: Floats = self._cells[group]
        return found

    def rows(self, groups: list[int]) -> Floats:
        found: Floats = self._cells[groups]
        return found
