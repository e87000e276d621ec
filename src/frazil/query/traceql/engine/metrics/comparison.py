"""Compares the attributes of selected spans with those of all others, for `compare`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from frazil.query.traceql.engine.fields import ATTRIBUTE_COLUMNS
from frazil.query.traceql.engine.metrics.grid import Grid
from frazil.query.traceql.engine.metrics.series import Label, Series, text
from frazil.query.traceql.engine.pipelines import condition
from frazil.query.traceql.engine.spans import Spans
from frazil.query.traceql.engine.values import Bools, Floats, Ints
from frazil.query.traceql.parse.tree import Attribute, Field, Intrinsic, MetricsFunction, Static

INTRINSICS = tuple(
    Intrinsic(name)
    for name in (
        "kind",
        "name",
        "rootName",
        "rootServiceName",
        "status",
        "statusMessage",
        "instrumentation:name",
        "instrumentation:version",
    )
)
_SCOPES = ("span", "resource")
_TOP = 10
_BASELINE, _SELECTION = "baseline", "selection"


class _Key(NamedTuple):
    part: str
    field: str
    value: Static


class Comparison:
    """Counts each value of each attribute, apart for the selection and the rest."""

    def __init__(self, function: MetricsFunction, grid: Grid, hold: Callable[[int], None]) -> None:
        assert function.filter is not None
        self._selection = function.filter
        numbers = [int(number.value) for number in function.numbers if isinstance(number.value, int)]
        self._top = numbers[0] if numbers else _TOP
        self._window = (numbers[1], numbers[2]) if len(numbers) == 3 else None
        self._grid = grid
        self._hold = hold
        self._counts: dict[_Key, Floats] = {}

    def add(self, spans: Spans, rows: Ints, steps: Ints) -> None:
        selected = self._selected(spans)[rows]
        for field in _fields(spans):
            column = spans.column(field).take(rows)
            known = np.flatnonzero(column.known)
            codes, statics = column.take(known).distinct()
            for part, chosen in ((_SELECTION, selected[known]), (_BASELINE, ~selected[known])):
                self._count(part, field, codes[chosen], statics, steps[known][chosen])

    def _selected(self, spans: Spans) -> Bools:
        found = condition(self._selection.expression).test(spans)
        if self._window is not None:
            start, end = self._window
            found = found & (spans.starts > start) & (spans.starts <= end)
        return found

    def _count(self, part: str, field: Field, codes: Ints, statics: list[Static], steps: Ints) -> None:
        used, inverse = np.unique(codes, return_inverse=True)
        counts = np.zeros((len(used), self._grid.count))
        np.add.at(counts, (inverse, steps), 1)
        for place, code in enumerate(used.tolist()):
            if statics[code].value is None:
                continue
            key = _Key(part, str(field), statics[code])
            if key in self._counts:
                self._counts[key] += counts[place]
            else:
                self._hold(counts[place].nbytes)
                self._counts[key] = counts[place].copy()

    def series(self) -> list[Series]:
        fields: dict[tuple[str, str], list[tuple[Static, Floats]]] = {}
        for key, counts in self._counts.items():
            fields.setdefault((key.part, key.field), []).append((key.value, counts))
        found = []
        for (part, field), values in fields.items():
            values.sort(key=lambda each: (-each[1].sum(), str(each[0])))
            for value, counts in values[: self._top]:
                found.append(Series((Label("__meta_type", text(part)), Label(field, value)), counts))
            total = np.sum([counts for _, counts in values], axis=0)
            nil = Label(field, text("nil"))
            found.append(Series((Label("__meta_type", text(part + "_total")), nil), total))
            if len(values) > self._top:
                error = Label("__meta_error", text("__too_many_values__"))
                found.append(Series((Label("__meta_type", text(part)), error, nil), np.zeros(self._grid.count)))
        return found


def _fields(spans: Spans) -> Iterator[Field]:
    yield from INTRINSICS
    for scope in _SCOPES:
        for key in spans.attributes(ATTRIBUTE_COLUMNS[scope]).keys:
            yield Attribute(scope, key)


COLUMNS = [name for scope in _SCOPES for name in (ATTRIBUTE_COLUMNS[scope], ATTRIBUTE_COLUMNS[scope] + "_types")]
"""The columns that a comparison needs besides those of its fields."""
