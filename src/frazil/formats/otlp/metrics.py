"""Turns OTLP data points into rows of the table `metrics`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric

from frazil.formats.otlp import points
from frazil.formats.otlp.metric_descriptions import WITH_TEMPORALITY, describe_metrics
from frazil.formats.otlp.points import KINDS, SUM, TOO_BIG, data_of, points_of, to_point
from frazil.formats.telemetry import attributes
from frazil.formats.telemetry.fields import TIME
from frazil.formats.telemetry.lists import lengths, total_lengths
from frazil.formats.telemetry.row_cache import RowCache
from frazil.formats.telemetry.row_messages import Row, pairs
from frazil.formats.telemetry.rows import (
    ROW_BYTES,
    Arrival,
    Rejected,
    TelemetryRows,
    batch_of,
    check_total,
    requests_with,
)
from frazil.formats.telemetry.runs import Ints, distinct, runs_of
from frazil.formats.telemetry.scopes import (
    ORIGIN,
    TENANT,
    TENANT_AND_SERVICE,
    common_columns,
    records_of,
    resource_attributes,
)
from frazil.formats.telemetry.series import SharedLabels, jobs_and_instances, series_ids
from frazil.log.schema.nulls import nulls

TOPIC = "metrics"
REQUEST = ExportMetricsServiceRequest

_FLOATS = pa.list_(pa.float64())
NATIVE = [
    pa.field("count_double", pa.float64()),
    pa.field("zero_count_double", pa.float64()),
    pa.field("bucket_counts_double", _FLOATS),
    pa.field("positive_bucket_counts_double", _FLOATS),
    pa.field("negative_bucket_counts_double", _FLOATS),
    pa.field("counter_reset_hint", pa.string()),
]
"""The columns that only native histograms of Prometheus fill: counts that are not whole numbers, and the hint about
counter resets."""

SCHEMA = pa.schema(
    [
        *TENANT_AND_SERVICE,
        pa.field("metric_name", pa.string()),
        pa.field("metric_type", pa.string()),
        pa.field("prometheus_name", pa.string()),
        pa.field("series_id", pa.int64()),
        pa.field("description", pa.string()),
        pa.field("unit", pa.string()),
        *attributes.fields("metadata"),
        pa.field("is_monotonic", pa.bool_()),
        pa.field("aggregation_temporality", pa.int32()),
        pa.field("ingested_timestamp", TIME, nullable=False),
        *points.FIELDS,
        *ORIGIN,
        *NATIVE,
    ]
)


def to_rows(requests: pa.RecordBatch, arrival: Arrival, *, dictionaries: bool = False) -> TelemetryRows:
    """Turns the data points of decoded requests into rows."""
    metrics, of_request, scopes, scope_of_metric, widths = records_of(
        requests, "resource_metrics", "scope_metrics", "metrics"
    )
    data = data_of(metrics)
    found = points_of(data, of_request, arrival.time_ns, dictionaries=dictionaries)
    for name in ("name", "description", "unit"):
        widths = widths + lengths(metrics.field(name))
    widths = widths + total_lengths(metrics.field("metadata"))
    check_total(int((widths[found.metrics] + ROW_BYTES).sum()))
    numbers = of_request[found.metrics]
    # A metric whose bytes have points of several kinds counts as several metrics.
    runs = runs_of(found.metrics * len(KINDS) + found.kinds)
    owners = found.metrics[runs.first]
    described = describe_metrics(metrics, data, owners, found.kinds[runs.first])
    # The labels of a series that all points of a metric and scope share come from these pairs.
    pairs = distinct(described.numbers, scope_of_metric[owners])
    names = described.rows.field("prometheus_name").take(pa.array(described.numbers[pairs.first]))
    resources = [scopes[at].resource for at in scope_of_metric[owners[pairs.first]].tolist()]
    named = SharedLabels(names, *_TARGET_CACHE.repeated(resources, [1] * len(resources)).flatten())
    columns = {
        **found.columns,
        **common_columns(scopes, scope_of_metric[found.metrics], dictionaries=dictionaries),
        **described.columns(runs, dictionaries=dictionaries),
        "series_id": series_ids(named, pairs.places[runs.places], found.columns["attributes"]),
        TENANT: arrival.tenants_of(numbers),
        "ingested_timestamp": arrival.times(len(numbers)),
        **{field.name: nulls(len(numbers), field.type) for field in NATIVE},
    }
    return TelemetryRows(
        batch_of(columns, SCHEMA, dictionaries=dictionaries),
        numbers,
        0,
        requests_with(found.timeless, numbers),
        _rejected(of_request, found.rejected),
    )


def _targets(resources: Sequence[bytes | None]) -> pa.StructArray:
    """Returns `job` and `instance` of each resource."""
    found = jobs_and_instances(resource_attributes(pa.array(resources, pa.binary())).maps)
    return pa.StructArray.from_arrays(found, ("job", "instance"))


_TARGET_CACHE = RowCache(_targets, lambda resource: len(resource or b""))


def _rejected(of_request: Ints, metrics: Ints) -> dict[int, Rejected]:
    numbers, counts = np.unique(of_request[metrics], return_counts=True)
    return {int(number): Rejected(int(count), TOO_BIG) for number, count in zip(numbers, counts, strict=True)}


def to_message(row: Row) -> Metric:
    """Turns a row into a metric with this one point again."""
    kind = row["metric_type"]
    metric = Metric(
        name=row["metric_name"], description=row["description"], unit=row["unit"], metadata=pairs(row, "metadata")
    )
    data = getattr(metric, kind)
    data.data_points.append(to_point(row))
    if kind == SUM:
        data.is_monotonic = row["is_monotonic"]
    if kind in WITH_TEMPORALITY:
        data.aggregation_temporality = row["aggregation_temporality"]
    return metric
