"""Gathers samples batch by batch: counts, sums, least and largest values, histograms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

import numpy as np

from frazil.query.traceql.engine.codes import distinct_codes
from frazil.query.traceql.engine.metrics.exemplars import ExemplarChoice
from frazil.query.traceql.engine.metrics.grid import Grid
from frazil.query.traceql.engine.metrics.groups import Grid2D, Groups
from frazil.query.traceql.engine.metrics.histograms import MOST_BUCKETS, bucket_bound, bucket_numbers, quantile
from frazil.query.traceql.engine.metrics.series import Exemplar, Label, Series, named
from frazil.query.traceql.engine.spans import Spans
from frazil.query.traceql.engine.values import Floats, Ints, Kind, Values
from frazil.query.traceql.parse.names import Type
from frazil.query.traceql.parse.tree import MetricsFunction, Static

Hold = Callable[[int], None]


class Accumulator(Protocol):
    def add(self, spans: Spans, rows: Ints, steps: Ints) -> None:
        """Counts these rows of the spans, which start in these steps."""

    def series(self) -> list[Series]: ...


class Counts:
    """Counts spans, for `rate` and `count_over_time`."""

    def __init__(self, function: MetricsFunction, grid: Grid, choice: ExemplarChoice, hold: Hold) -> None:
        self._function = function
        self._grid = grid
        self._choice = choice
        self._hold = hold
        self._groups = Groups(function.by)
        self._counts = Grid2D(grid.count, 0)

    def add(self, spans: Spans, rows: Ints, steps: Ints) -> None:
        groups = self._groups.numbers(spans, rows)
        self._hold(self._counts.grow(self._groups.count))
        np.add.at(self._counts.flat, groups * self._grid.count + steps, 1)
        self._choice.offer(spans, rows, groups, steps, None)

    def series(self) -> list[Series]:
        divisor = self._grid.step_seconds if self._function.name == "rate" else 1.0
        exemplars = self._choice.of_groups()
        labels = self._groups.labels() if self._function.by else [named(self._function.name)]
        # Without groups there is a series even if there are no spans.
        self._counts.grow(len(labels))
        found = []
        for group, its_labels in enumerate(labels):
            samples = self._counts.row(group) / divisor
            found.append(Series(its_labels, samples, with_samples(exemplars.get(group, []), samples)))
        return found


_COMBINING: dict[str, tuple[float, np.ufunc]] = {
    "min_over_time": (np.inf, np.minimum),
    "max_over_time": (-np.inf, np.maximum),
}


class Measures:
    """Adds up or compares values, for `sum_`, `avg_`, `min_` and `max_over_time`."""

    def __init__(self, function: MetricsFunction, grid: Grid, choice: ExemplarChoice, hold: Hold) -> None:
        assert function.field is not None
        self._field = function.field
        self._function = function
        self._grid = grid
        self._choice = choice
        self._hold = hold
        self._groups = Groups(function.by)
        start, self._combine = _COMBINING.get(function.name, (0.0, np.add))
        self._counts, self._values = Grid2D(grid.count, 0), Grid2D(grid.count, start)

    def add(self, spans: Spans, rows: Ints, steps: Ints) -> None:
        values = spans.column(self._field).take(rows).expanded()
        kept = np.flatnonzero(values.numeric)
        rows, steps, numbers = rows[kept], steps[kept], in_seconds(values)[kept]
        groups = self._groups.numbers(spans, rows)
        self._hold(self._counts.grow(self._groups.count) + self._values.grow(self._groups.count))
        places = groups * self._grid.count + steps
        np.add.at(self._counts.flat, places, 1)
        self._combine.at(self._values.flat, places, numbers)
        self._choice.offer(spans, rows, groups, steps, numbers)

    def series(self) -> list[Series]:
        exemplars = self._choice.of_groups()
        found = []
        for group, labels in enumerate(self._groups.labels()):
            counts, values = self._counts.row(group), self._values.row(group)
            divisor = counts if self._function.name == "avg_over_time" else 1.0
            with np.errstate(invalid="ignore", divide="ignore"):
                samples = np.where(counts > 0, values / divisor, np.nan)
            its_labels = labels if self._function.by else named(self._function.name)
            found.append(Series(its_labels, samples, tuple(exemplars.get(group, []))))
        return found


class Histograms:
    """Counts values in buckets that double, for `histogram_over_time` and `quantile_over_time`."""

    def __init__(self, function: MetricsFunction, grid: Grid, choice: ExemplarChoice, hold: Hold) -> None:
        assert function.field is not None
        self._field = function.field
        self._function = function
        self._grid = grid
        self._choice = choice
        self._hold = hold
        self._groups = Groups(function.by)
        self._buckets: dict[tuple[int, int], int] = {}
        """By group and number of the bucket: the row of the counts."""
        self._counts = Grid2D(grid.count, 0)

    def add(self, spans: Spans, rows: Ints, steps: Ints) -> None:
        values = spans.column(self._field).take(rows).expanded()
        kept = np.flatnonzero(values.whole & (values.ints >= 2))
        if not len(kept):
            return
        rows, steps = rows[kept], steps[kept]
        groups = self._groups.numbers(spans, rows)
        numbers = bucket_numbers(values.ints[kept], values.kinds[kept] == Kind.DURATION)
        used, inverse = distinct_codes(groups * MOST_BUCKETS + numbers)
        pairs = [divmod(code, MOST_BUCKETS) for code in used.tolist()]
        places = [self._buckets.setdefault(pair, len(self._buckets)) for pair in pairs]
        self._hold(self._counts.grow(len(self._buckets)))
        of_rows = np.array(places, np.int64)[inverse]
        np.add.at(self._counts.flat, of_rows * self._grid.count + steps, 1)
        by_group = self._function.name == "quantile_over_time"
        self._choice.offer(spans, rows, groups if by_group else of_rows, steps, in_seconds(values)[kept])

    def series(self) -> list[Series]:
        if self._function.name == "quantile_over_time":
            return [each for group in range(self._groups.count) for each in self._quantiles(group)]
        exemplars, labels = self._choice.of_groups(), self._groups.labels()
        found = []
        for (group, number), place in self._buckets.items():
            samples = self._counts.row(place).copy()
            own = Label("__bucket", Static(Type.FLOAT, bucket_bound(number)))
            its_exemplars = with_samples(exemplars.get(place, []), samples)
            found.append(Series((*labels[group], own), samples, its_exemplars))
        return found

    def _quantiles(self, group: int) -> list[Series]:
        own = sorted((bucket_bound(number), place) for (its, number), place in self._buckets.items() if its == group)
        bounds = np.array([bound for bound, _ in own])
        counts = self._counts.rows([place for _, place in own])
        labels = self._groups.labels()[group]
        found = []
        for number in self._function.numbers:
            assert isinstance(number.value, int | float)
            label = Label("p", Static(Type.FLOAT, float(number.value)))
            found.append(Series((*labels, label), quantile(float(number.value), bounds, counts)))
        return _shared_out(found, self._choice.of_groups().get(group, []))


def _shared_out(series: list[Series], exemplars: list[Exemplar]) -> list[Series]:
    """Gives each exemplar to the series whose sample is closest to its value."""
    own: list[list[Exemplar]] = [[] for _ in series]
    for each in exemplars:
        distances = [abs(one.samples[each.step] - each.value) for one in series]
        own[int(np.argmin(distances))].append(each)
    return [replace(each, exemplars=tuple(its)) for each, its in zip(series, own, strict=True)]


def with_samples(exemplars: list[Exemplar], samples: Floats) -> tuple[Exemplar, ...]:
    """Gives exemplars the value of the sample that counts them."""
    return tuple(each._replace(value=float(samples[each.step])) for each in exemplars)


def in_seconds(values: Values) -> Floats:
    """Returns numbers, durations among them in seconds."""
    found: Floats = np.where(values.kinds == Kind.DURATION, values.numbers / 1e9, values.numbers)
    return found


_ACCUMULATORS: dict[str, type[Counts | Measures | Histograms]] = {
    "rate": Counts,
    "count_over_time": Counts,
    "sum_over_time": Measures,
    "avg_over_time": Measures,
    "min_over_time": Measures,
    "max_over_time": Measures,
    "histogram_over_time": Histograms,
    "quantile_over_time": Histograms,
}


def accumulator(function: MetricsFunction, grid: Grid, choice: ExemplarChoice, hold: Hold) -> Accumulator:
    return _ACCUMULATORS[function.name](function, grid, choice, hold)
