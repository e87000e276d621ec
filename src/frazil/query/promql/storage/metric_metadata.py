"""Finds type, help and unit of metrics, as whoever sent them described them last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from frazil.engine.interface import QueryContext
from frazil.formats.otlp.points import EXPONENTIAL, HISTOGRAM, SUM, SUMMARY
from frazil.query.promql.storage.arrow_columns import mixed, text_hashes, valid
from frazil.query.promql.storage.metric_names import NameCondition
from frazil.query.promql.storage.stored_units import StoredUnit, stored_units
from frazil.query.promql.storage.unit_index import LabelRules

_COLUMNS = ["prometheus_name", "metric_type", "is_monotonic", "description", "unit", "metadata"]
_SUFFIXES = ("_bucket", "_count", "_sum")


@dataclass(frozen=True, order=True)
class Description:
    """Is what is known of a metric."""

    name: str
    type: str
    unit: str
    help: str


def descriptions(
    context: QueryContext, tenants: tuple[str, ...], names: NameCondition, start_ms: int | None
) -> list[Description]:
    """Returns the different descriptions of all metrics, by name."""
    found: set[Description] = set()
    for unit in stored_units(context, tenants, LabelRules(), names, start_ms, None):
        context.check()
        found.update(_of_unit(context, unit))
    return sorted(found)


def _of_unit(context: QueryContext, unit: StoredUnit) -> frozenset[Description]:
    def read() -> frozenset[Description]:
        return frozenset(_read(unit.unit.read(_COLUMNS, filtered=False)))

    if unit.key is None:
        return read()
    return context.cache.get(("promql", "metadata", unit.key), read, lambda found: 400 * len(found))


def _read(rows: pa.RecordBatch) -> Iterator[Description]:
    identity = text_hashes(rows.column("prometheus_name"))
    for name in ("metric_type", "description", "unit"):
        identity = mixed(identity, text_hashes(rows.column(name)))
    identity = mixed(identity, valid(rows.column("metadata")).astype(np.uint64))
    _, firsts = np.unique(identity, return_index=True)
    for row in rows.take(pa.array(firsts)).to_pylist():
        name, foreign = row["prometheus_name"] or "", row["metadata"] is None
        kind = _type(row["metric_type"], row["is_monotonic"], name, foreign=foreign)
        if kind == HISTOGRAM and foreign:
            name = next((name.removesuffix(each) for each in _SUFFIXES if name.endswith(each)), name)
        yield Description(name, kind, row["unit"] or "", row["description"] or "")


def _type(kind: str, monotonic: bool | None, name: str, *, foreign: bool) -> str:
    if kind in (HISTOGRAM, EXPONENTIAL):
        return "histogram"
    if kind == SUMMARY:
        return "summary"
    if kind == SUM and monotonic is not False:
        # Remote write tells only that something counts, so the series of a histogram look like any counter.
        return "counter"
    if kind == SUM and foreign and name.endswith("_sum"):
        return "counter"
    return "gauge"
