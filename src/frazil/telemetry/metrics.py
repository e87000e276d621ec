"""Data points of metrics as rows of the table `metrics`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE, Metric

from frazil.telemetry import attributes, points
from frazil.telemetry.fields import TIME
from frazil.telemetry.levels import ORIGIN, TENANT, WHOSE, Columns, named, records_of
from frazil.telemetry.messaging import Row, pairs
from frazil.telemetry.points import EXPONENTIAL, GAUGE, HISTOGRAM, KINDS, SUM, TOO_BIG, points_of, to_point
from frazil.telemetry.prometheus_names import metric_names
from frazil.telemetry.rows import ROW_BYTES, Arrival, Rejected, Rows, check_total, requests_with
from frazil.telemetry.runs import Ints, runs_of
from frazil.telemetry.series import Owners, series_ids, targets

TOPIC = "metrics"
REQUEST = ExportMetricsServiceRequest

SCHEMA = pa.schema(
    [
        *WHOSE,
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
    ]
)

_NAMES = pa.array(KINDS)
_GAUGE, _SUM = KINDS.index(GAUGE), KINDS.index(SUM)
_TEMPORAL = [KINDS.index(kind) for kind in (SUM, HISTOGRAM, EXPONENTIAL)]
"""The kinds that say whether a point counts from the start, or from the point before."""


def to_rows(requests: pa.RecordBatch, arrival: Arrival) -> Rows:
    """The points of decoded requests."""
    metrics, of_request, common, widths = records_of(requests, "resource_metrics", "scope_metrics", "metrics")
    found = points_of(metrics, of_request.to_numpy(), arrival.time_ns)
    for name in ("name", "description", "unit"):
        widths = widths + pc.binary_length(metrics.field(name)).to_numpy()
    check_total(int((widths[found.metrics] + ROW_BYTES).sum()))
    at = pa.array(found.metrics)
    numbers = of_request.take(at)
    # A metric whose bytes have points of several kinds is several.
    runs = runs_of(found.metrics * len(KINDS) + found.kinds)
    owners, kinds = found.metrics[runs.first], found.kinds[runs.first]
    summed = _summed(metrics, owners, kinds)
    names = metric_names(metrics.field("name"), metrics.field("unit"), owners, summed.counters, kinds == _GAUGE)
    jobs, instances = _targets(requests, common["resource_attributes"], owners)
    columns = {
        **found.columns,
        **_taken({**common, **_described(metrics)}, found.metrics),
        **_taken({**summed.columns, "prometheus_name": names}, runs.places),
        "series_id": series_ids(Owners(names, jobs, instances), runs.places, found.columns["attributes"]),
        TENANT: arrival.tenants.take(numbers),
        "ingested_timestamp": pa.repeat(pa.scalar(arrival.time_ns, TIME), len(at)),
    }
    batch = pa.RecordBatch.from_arrays([columns[name] for name in SCHEMA.names], schema=SCHEMA)
    return Rows(batch, numbers, 0, requests_with(found.timeless, numbers), _rejected(of_request, found.rejected))


def _taken(columns: Columns, places: Ints) -> Columns:
    at = pa.array(places)
    return {name: column.take(at) for name, column in columns.items()}


def _described(metrics: pa.StructArray) -> Columns:
    """What metrics say of themselves."""
    return {
        "metric_name": metrics.field("name"),
        "description": metrics.field("description"),
        "unit": metrics.field("unit"),
        **named("metadata", attributes.of_lists(metrics.field("metadata"))),
    }


class _Summed(NamedTuple):
    """How metrics of these kinds sum up what they measured."""

    columns: Columns
    counters: npt.NDArray[np.bool_]
    """True for those that Prometheus calls so."""


def _summed(metrics: pa.StructArray, owners: Ints, kinds: Ints) -> _Summed:
    temporality, monotonic = np.zeros(len(owners), np.int32), np.zeros(len(owners), bool)
    temporal = np.isin(kinds, _TEMPORAL)
    for number in np.unique(kinds[temporal]):
        data, here = metrics.field(KINDS[number]), kinds == number
        temporality[here] = data.field("aggregation_temporality").to_numpy()[owners[here]]
        if number == _SUM:
            monotonic[here] = data.field("is_monotonic").to_numpy(zero_copy_only=False)[owners[here]]
    columns = {
        "metric_type": _NAMES.take(pa.array(kinds)),
        "is_monotonic": pa.array(monotonic, mask=kinds != _SUM),
        "aggregation_temporality": pa.array(temporality, mask=~temporal),
    }
    return _Summed(columns, monotonic & (temporality == AGGREGATION_TEMPORALITY_CUMULATIVE))


def _targets(requests: pa.RecordBatch, resources: pa.MapArray, metrics: Ints) -> tuple[pa.Array, pa.Array]:
    """`job` and `instance` of these metrics; looked for once in each resource."""
    scopes = requests.column("resource_metrics").flatten().field("scope_metrics")
    parents = pc.list_parent_indices(scopes).take(pc.list_parent_indices(scopes.flatten().field("metrics")))
    runs = runs_of(parents.to_numpy())
    places = pa.array(runs.places[metrics])
    jobs, instances = targets(resources.take(pa.array(runs.first)))
    return jobs.take(places), instances.take(places)


def _rejected(of_request: pa.Array, metrics: Ints) -> dict[int, Rejected]:
    numbers, counts = np.unique(of_request.to_numpy()[metrics], return_counts=True)
    return {int(number): Rejected(int(count), TOO_BIG) for number, count in zip(numbers, counts, strict=True)}


def to_message(row: Row) -> Metric:
    """The metric again, with this one point."""
    kind = row["metric_type"]
    metric = Metric(
        name=row["metric_name"], description=row["description"], unit=row["unit"], metadata=pairs(row, "metadata")
    )
    data = getattr(metric, kind)
    data.data_points.append(to_point(row))
    if kind == SUM:
        data.is_monotonic = row["is_monotonic"]
    if KINDS.index(kind) in _TEMPORAL:
        data.aggregation_temporality = row["aggregation_temporality"]
    return metric
