"""Reads the units of the topic `metrics`, and keeps what is made of them between queries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from frazil.engine.interface import QueryContext
from frazil.errors import TopicNotFound
from frazil.formats.otlp.metrics import TOPIC
from frazil.query.promql.storage.classic_histograms import series_of, summary_series
from frazil.query.promql.storage.metric_names import NameCondition
from frazil.query.promql.storage.native_histograms import COLUMNS as NATIVE_COLUMNS
from frazil.query.promql.storage.native_histograms import native_series
from frazil.query.promql.storage.sample_parts import SamplePart, read_numbers, rows_of_shape
from frazil.query.promql.storage.target_info import target_series
from frazil.query.promql.storage.unit_index import LabelRules, Shape, UnitIndex, read_index
from frazil.scan.interface import ScanRequest, Unit

T = TypeVar("T")
_MILLISECOND = 1_000_000
_EARLIEST, _LATEST = -(2**63), 2**63 - 1


@dataclass(frozen=True)
class Parts:
    """Has the samples of a unit that a shape of rows makes."""

    floats: tuple[SamplePart, ...] = ()
    histograms: tuple[SamplePart, ...] = ()

    @property
    def nbytes(self) -> int:
        return sum(part.nbytes for part in (*self.floats, *self.histograms))


@dataclass(frozen=True)
class StoredUnit:
    """Is a unit with what is known of its series."""

    context: QueryContext
    unit: Unit
    rules: LabelRules
    columns: frozenset[str]

    @property
    def key(self) -> tuple[object, ...] | None:
        return self.unit.key

    @property
    def index(self) -> UnitIndex:
        return self._kept(
            "index", lambda: read_index(self.unit, self.rules, sorted(self.columns)), lambda v: v.nbytes
        )

    @property
    def has_targets(self) -> bool:
        return bool((self.index.kinds != 0).any())

    def wanted_shapes(self, names: NameCondition) -> Iterator[Shape]:
        index = self.index
        column = index.labels.get("__name__")
        for shape in Shape:
            here = np.unique(column.codes[index.shapes == shape])
            if len(here) and any(names.accepts_shape(shape, [column.values[code] for code in here.tolist()])):
                yield shape

    def parts(self, shape: Shape) -> Parts:
        return self._kept(f"samples {shape}", lambda: self._read(shape), lambda parts: parts.nbytes)

    def targets(self) -> SamplePart:
        return self._kept(
            "targets", lambda: target_series(self.unit, tenants=self.rules.tenants), lambda part: part.nbytes
        )

    def _read(self, shape: Shape) -> Parts:
        self.context.check()
        known = sorted(self.columns)
        if shape == Shape.NUMBER:
            return Parts((read_numbers(self.unit, self.index, known),))
        if shape == Shape.NATIVE:
            histograms, markers = native_series(rows_of_shape(self.unit, self.index, shape, NATIVE_COLUMNS, known))
            return Parts((markers,) if len(markers.times) else (), (histograms,))
        own = ("bucket_counts", "explicit_bounds") if shape == Shape.CLASSIC else ("quantile_values",)
        rows = rows_of_shape(self.unit, self.index, shape, ("count", "sum", *own), known)
        found = series_of(rows) if shape == Shape.CLASSIC else summary_series(rows)
        return Parts((found,) if found is not None else ())

    def _kept(self, what: str, make: Callable[[], T], size: Callable[[T], int]) -> T:
        if self.key is None:
            return make()
        return self.context.cache.get(("promql", what, self.rules, self.key), make, size)


def stored_units(
    context: QueryContext,
    tenants: tuple[str, ...],
    rules: LabelRules,
    names: NameCondition,
    start_ms: int | None,
    end_ms: int | None,
) -> list[StoredUnit]:
    """Returns the units that may have samples of these metrics in a span of time, both ends included."""
    request = ScanRequest(
        TOPIC,
        tenants,
        None if start_ms is None else min(max(start_ms * _MILLISECOND, _EARLIEST), _LATEST),
        None if end_ms is None else min(max((end_ms + 1) * _MILLISECOND, _EARLIEST), _LATEST),
        names.predicate,
    )
    try:
        scan = context.scanner.scan(request)
    except TopicNotFound:
        return []
    columns = frozenset(scan.schema.names)
    return [StoredUnit(context, unit, rules, columns) for unit in scan.units()]


def keys_of(units: Sequence[StoredUnit]) -> tuple[object, ...] | None:
    """Returns the keys of all units, or None if one of them has none."""
    keys = tuple(unit.key for unit in units)
    return None if None in keys else keys
