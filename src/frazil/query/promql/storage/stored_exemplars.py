"""Finds exemplars of series: single measurements with the traces that they were made in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from frazil.engine.interface import QueryContext
from frazil.formats.telemetry.prometheus_names import label_name
from frazil.query.promql.parse.literals import print_number
from frazil.query.promql.parse.tree import Matcher
from frazil.query.promql.series.labels import LabelTable
from frazil.query.promql.series.memory import matching_rows
from frazil.query.promql.storage.metric_names import NameCondition
from frazil.query.promql.storage.stored_units import StoredUnit, stored_units
from frazil.query.promql.storage.unit_index import LabelRules, Shape

_MILLISECOND = 1_000_000


@dataclass(frozen=True)
class Exemplar:
    series: Mapping[str, str]
    labels: Mapping[str, str]
    value: float
    time_ms: int


def exemplars_of(
    context: QueryContext,
    tenants: tuple[str, ...],
    rules: LabelRules,
    matchers: Sequence[Matcher],
    start_ms: int | None,
    end_ms: int | None,
) -> Iterator[Exemplar]:
    """Yields the exemplars of matching series with times in a span, both ends included."""
    names = NameCondition.of(matchers)
    # An exemplar may be somewhat older than its sample, which is what units are found by.
    for unit in stored_units(context, tenants, rules, names, start_ms, None):
        context.check()
        for found in _of_unit(unit):
            early = start_ms is not None and found.time_ms < start_ms
            if early or (end_ms is not None and found.time_ms > end_ms):
                continue
            if matching_rows(LabelTable.of([found.series]), matchers)[0]:
                yield found


def _of_unit(unit: StoredUnit) -> Iterator[Exemplar]:
    lists = unit.unit.read(["exemplars"], filtered=False).column("exemplars")
    filled = np.flatnonzero(pc.fill_null(pc.list_value_length(lists), 0).to_numpy())
    if not len(filled):
        return
    rows = unit.unit.read(["exemplars", "explicit_bounds", "metadata"], filtered=False).take(pa.array(filled))
    index = unit.index
    owners = np.repeat(np.arange(index.labels.size), np.diff(index.offsets))
    if index.rows is not None:
        owners = owners[np.argsort(index.rows)]
    for at, row in zip(filled.tolist(), rows.to_pylist(), strict=True):
        series = index.labels.row(int(owners[at]))
        classic = index.shapes[owners[at]] == Shape.CLASSIC
        for each in row["exemplars"]:
            value = each["value_double"] if each["value_double"] is not None else float(each["value_int"] or 0)
            found = _bucket(series, row["explicit_bounds"] or [], value) if classic else series
            labels = _labels(each, foreign=row["metadata"] is None)
            yield Exemplar(found, labels, value, each["time_unix_nano"] // _MILLISECOND)


def _bucket(series: Mapping[str, str], bounds: Sequence[float], value: float) -> dict[str, str]:
    """Returns the series of the bucket that the value is in."""
    bound = next((print_number(each) for each in bounds if value <= each), "+Inf")
    return {**series, "__name__": f"{series.get('__name__', '')}_bucket", "le": bound}


def _labels(exemplar: dict[str, Any], *, foreign: bool) -> dict[str, str]:
    found = {(key if foreign else label_name(key)): text or "" for key, text in exemplar["attributes"] or [] if text}
    for name in ("trace_id", "span_id"):
        if exemplar[name]:
            found[name] = exemplar[name].hex()
    return found
