"""Makes `target_info` out of the attributes of resources, which every row from OTLP has."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from frazil.formats.telemetry.series import INSTANCE, JOB, jobs_and_instances
from frazil.query.promql.series.labels import LabelTable, column_of
from frazil.query.promql.storage.arrow_columns import map_hashes, milliseconds, mixed, text_hashes, valid
from frazil.query.promql.storage.sample_parts import NAME, SamplePart
from frazil.query.promql.storage.series_labels import TENANT, LabelColumns
from frazil.scan.interface import Unit

TARGET_INFO = "target_info"
_IDENTIFYING = frozenset({"service.name", "service.namespace", "service.instance.id"})


def target_series(unit: Unit, *, tenants: bool) -> SamplePart:
    """Returns a series for each resource that has more than a name: 1 at each time at which it sent something."""
    rows = unit.read(["metadata", "resource_attributes", "timestamp", "tenant_id"], filtered=False)
    rows = rows.filter(pa.array(valid(rows.column("metadata"))))
    identity = map_hashes(rows.column("resource_attributes"))
    if tenants:
        identity = mixed(identity, text_hashes(rows.column("tenant_id")))
    times = milliseconds(rows.column("timestamp"))
    _, firsts, series = np.unique(identity, return_index=True, return_inverse=True)
    labels, described = _labels(rows.take(pa.array(firsts)), tenants=tenants)
    # Each resource and time counts once, whatever the number of its metrics.
    order = np.lexsort((times, series))
    series, times = series[order], times[order]
    kept = np.ones(len(series), bool)
    kept[1:] = (series[1:] != series[:-1]) | (times[1:] != times[:-1])
    series, times = series[kept], times[kept]
    offsets = np.searchsorted(series, np.arange(len(firsts) + 1)).astype(np.int64)
    nothing = np.zeros(len(times), np.int64)
    found = SamplePart(labels, np.zeros(len(firsts), np.int8), offsets, times, nothing, np.ones(len(times)))
    return found.take(np.flatnonzero(described))


def _labels(rows: pa.RecordBatch, *, tenants: bool) -> tuple[LabelTable, np.ndarray]:
    """Returns the labels, and which resources have any that does not only name them."""
    maps = rows.column("resource_attributes")
    others = [
        [(key, text) for key, text in (each or []) if key not in _IDENTIFYING and text] for each in maps.to_pylist()
    ]
    found, everyone = LabelColumns(len(rows)), np.arange(len(rows))
    found.add_maps(pa.array(others, maps.type), everyone, translated=True)
    named = np.zeros(len(rows), bool)
    for label, texts in zip((JOB, INSTANCE), jobs_and_instances(maps), strict=True):
        found.replace(label, texts, everyone)
        named |= np.array([bool(text) for text in texts.to_pylist()], bool)
    if tenants:
        found.replace(TENANT, rows.column("tenant_id"), everyone)
    described = named & np.array([bool(each) for each in others], bool)
    return found.table().with_column(NAME, column_of([TARGET_INFO] * len(rows))), described
