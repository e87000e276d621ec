"""OTLP's data points become rows of a table, and nothing is lost."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    AGGREGATION_TEMPORALITY_DELTA,
    AGGREGATION_TEMPORALITY_UNSPECIFIED,
    DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK,
    ExponentialHistogram,
    ExponentialHistogramDataPoint,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
    Sum,
    Summary,
    SummaryDataPoint,
)
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from frazil.doors.otlp.signals import METRICS
from frazil.errors import RequestError
from frazil.formats.otlp import metrics
from frazil.formats.telemetry.row_messages import Row, plain_rows, resource_of, scope_of
from frazil.formats.telemetry.rows import TelemetryRows
from frazil.formats.telemetry.series import labels, series_id
from frazil.lake.mapping.mapper import Mapper
from frazil.lake.schema.table_schema import base_table_schema
from tests.formats.otlp.metric_requests import point_by_point
from tests.formats.telemetry.metric_strategies import requests
from tests.formats.telemetry.support import NOW, rows_of

Buckets = ExponentialHistogramDataPoint.Buckets
CUMULATIVE = AGGREGATION_TEMPORALITY_CUMULATIVE


def request_of(*given: Metric) -> metrics.REQUEST:
    return metrics.REQUEST(resource_metrics=[ResourceMetrics(scope_metrics=[ScopeMetrics(metrics=given)])])


def plain(rows: TelemetryRows) -> list[Row]:
    return list(plain_rows(pa.Table.from_batches([rows.batch])))


def in_bytes(message: Any) -> bytes:
    """Serializes messages to compare them, because they may contain NaN, which is not equal to itself."""
    found: bytes = message.SerializeToString(deterministic=True)
    return found


@given(given=st.lists(requests, min_size=1, max_size=3))
def test_all_of_it_comes_back(given: list[metrics.REQUEST]) -> None:
    rows = rows_of(METRICS, *given)
    assert rows.batch.schema == metrics.SCHEMA
    assert (rows.invalid_ids, rows.timeless, rows.rejected) == (0, frozenset(), {})
    numbers = rows.requests.tolist()
    assert numbers == sorted(numbers)
    found = plain(rows)
    for number, request in enumerate(given):
        expected = [
            (in_bytes(alone), of_resource, of_scope)
            for of_resource in request.resource_metrics
            for of_scope in of_resource.scope_metrics
            for metric in of_scope.metrics
            for alone in point_by_point(metric)
        ]
        mine = [row for row, its in zip(found, numbers, strict=True) if its == number]
        assert sorted(in_bytes(metrics.to_message(row)) for row in mine) == sorted(each for each, *_ in expected)
        origins = {(message, _origin(of_resource, of_scope)) for message, of_resource, of_scope in expected}
        for row in mine:
            assert row["tenant_id"] == f"tenant-{number}"
            assert row["ingested_timestamp"] == NOW
            assert (in_bytes(metrics.to_message(row)), _origin_of(row)) in origins
            named = labels(row["prometheus_name"], row["attributes"], row["resource_attributes"] or [])
            assert row["series_id"] == series_id(named)


@given(given=requests)
def test_all_of_it_comes_back_from_a_table(given: metrics.REQUEST) -> None:
    rows = rows_of(METRICS, given)
    stored = Mapper(metrics.SCHEMA, base_table_schema(metrics.SCHEMA)).map(rows.batch, 0, 0)
    assert stored.misfits is None
    file = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_batches([stored.batch]), file)
    found = plain_rows(pq.read_table(pa.BufferReader(file.getvalue())))
    assert [in_bytes(metrics.to_message(row)) for row in found] == [
        in_bytes(metrics.to_message(row)) for row in plain(rows)
    ]


def _origin(of_resource: ResourceMetrics, of_scope: ScopeMetrics) -> tuple[Any, ...]:
    return (
        in_bytes(of_resource.resource) if of_resource.HasField("resource") else None,
        in_bytes(of_scope.scope) if of_scope.HasField("scope") else None,
        of_resource.schema_url,
        of_scope.schema_url,
    )


def _origin_of(row: Row) -> tuple[Any, ...]:
    resource, scope = resource_of(row), scope_of(row)
    return (
        None if resource is None else in_bytes(resource),
        None if scope is None else in_bytes(scope),
        row["resource_schema_url"],
        row["scope_schema_url"],
    )


def test_rows_come_request_by_request() -> None:
    gauge = Metric(name="g", gauge=Gauge(data_points=[NumberDataPoint(as_int=1, time_unix_nano=1)]))
    summary = Metric(name="s", summary=Summary(data_points=[SummaryDataPoint(count=1, time_unix_nano=1)]))
    rows = rows_of(METRICS, request_of(summary, gauge), request_of(), request_of(gauge, summary))
    assert rows.requests.tolist() == [0, 0, 2, 2]
    assert rows.batch["tenant_id"].to_pylist() == ["tenant-0", "tenant-0", "tenant-2", "tenant-2"]
    assert rows.batch["metric_name"].to_pylist() == ["g", "s", "g", "s"]
    assert rows.batch["value_int"].to_pylist() == [1, None, 1, None]
    assert rows.batch["count"].to_pylist() == [None, 1, None, 1]


def test_no_requests_and_no_points() -> None:
    empty = [Metric(name="none"), Metric(name="no points", gauge=Gauge())]
    for rows in (
        rows_of(
            METRICS,
        ),
        rows_of(METRICS, metrics.REQUEST()),
        rows_of(METRICS, request_of(*empty)),
    ):
        assert rows.batch.schema == metrics.SCHEMA
        assert rows.batch.num_rows == len(rows.requests) == 0


def test_no_time_is_that_of_arrival() -> None:
    points = [NumberDataPoint(time_unix_nano=time) for time in (0, 2**63, 2**64 - 1)]
    rows = rows_of(METRICS, request_of(), request_of(Metric(gauge=Gauge(data_points=points))))
    assert [(row["timestamp"], row["start_timestamp"]) for row in plain(rows)] == [(NOW, None)] * 3
    assert rows.timeless == {1}


def test_a_stale_marker_keeps_its_bits() -> None:
    # Prometheus marks the end of a series with this NaN, one of many.
    marker = 0x7FF0000000000002
    point = struct.pack("<BQBQ", 0x19, 1, 0x21, marker)  # time_unix_nano, as_double
    body = _nested(1, _nested(2, _nested(2, _nested(5, _nested(1, point)))))
    column = rows_of(METRICS, body).batch["value_double"]
    assert struct.unpack("<Q", column.buffers()[1][:8].to_pybytes())[0] == marker


def test_a_point_without_a_value_is_not_zero() -> None:
    flags = DATA_POINT_FLAGS_NO_RECORDED_VALUE_MASK
    points = [NumberDataPoint(flags=flags), NumberDataPoint(as_double=0), NumberDataPoint(as_int=0)]
    rows = plain(rows_of(METRICS, request_of(Metric(gauge=Gauge(data_points=points)))))
    found = [(row["value_double"], row["value_int"], row["flags"]) for row in rows]
    assert found == [(None, None, 1), (0.0, None, 0), (None, 0, 0)]


@pytest.mark.parametrize(
    "wrong",
    [
        Metric(histogram=Histogram(data_points=[HistogramDataPoint(count=2**63)])),
        Metric(histogram=Histogram(data_points=[HistogramDataPoint(bucket_counts=[1, 2**64 - 1])])),
        Metric(summary=Summary(data_points=[SummaryDataPoint(count=2**64 - 1)])),
        *(
            Metric(exponential_histogram=ExponentialHistogram(data_points=[point]))
            for point in (
                ExponentialHistogramDataPoint(count=2**63),
                ExponentialHistogramDataPoint(zero_count=2**63),
                ExponentialHistogramDataPoint(positive=Buckets(bucket_counts=[2**63])),
                ExponentialHistogramDataPoint(negative=Buckets(bucket_counts=[0, 0, 2**63])),
            )
        ),
    ],
)
def test_a_count_that_no_column_can_have_is_rejected_alone(wrong: Metric) -> None:
    kind = wrong.WhichOneof("data") or ""
    good = Metric(name="good")
    getattr(good, kind).data_points.add(count=2**63 - 1, time_unix_nano=1)
    mixed = Metric(name="mixed")
    mixed.CopyFrom(wrong)
    getattr(mixed, kind).data_points.add(count=7, time_unix_nano=1)
    rows = rows_of(METRICS, request_of(good), request_of(wrong, mixed, good))
    assert rows.requests.tolist() == [0, 1, 1]
    assert rows.batch["count"].to_pylist() == [2**63 - 1, 7, 2**63 - 1]
    ((number, rejected),) = rows.rejected.items()
    assert (number, rejected.records) == (1, 2)
    assert str(2**63 - 1) in rejected.reason


def test_a_metric_of_two_kinds_at_once_has_points_of_both() -> None:
    gauge = Metric(name="one", unit="1", gauge=Gauge(data_points=[NumberDataPoint(as_int=1)]))
    summed = Sum(data_points=[NumberDataPoint(as_int=2)], is_monotonic=True, aggregation_temporality=CUMULATIVE)
    counter = Metric(sum=summed)
    body = _nested(1, _nested(2, _nested(2, gauge.SerializeToString() + counter.SerializeToString())))
    rows = plain(rows_of(METRICS, body))
    found = [(row["metric_type"], row["prometheus_name"], row["value_int"], row["is_monotonic"]) for row in rows]
    assert found == [("gauge", "one_ratio", 1, None), ("sum", "one_total", 2, True)]


def test_names_for_prometheus() -> None:
    point = NumberDataPoint(as_int=1)
    given = [
        Metric(name="used", unit="By", gauge=Gauge(data_points=[point, point])),
        Metric(name="cpu.load", unit="1", gauge=Gauge(data_points=[point])),
        Metric(name="cpu.load", unit="1", sum=Sum(data_points=[point])),
    ]
    for monotonic, temporality in (
        (True, CUMULATIVE),
        (True, AGGREGATION_TEMPORALITY_DELTA),
        (True, AGGREGATION_TEMPORALITY_UNSPECIFIED),
        (False, CUMULATIVE),
    ):
        counted = Sum(data_points=[point], is_monotonic=monotonic, aggregation_temporality=temporality)
        given.append(Metric(name="requests", unit="{request}", sum=counted))
    given.append(Metric(name="took", unit="s", histogram=Histogram(data_points=[HistogramDataPoint()])))
    rows = plain(rows_of(METRICS, request_of(*given)))
    assert [row["metric_name"] for row in rows] == ["used", "used", "cpu.load", "cpu.load", *["requests"] * 4, "took"]
    assert [row["prometheus_name"] for row in rows] == [
        *("used_bytes", "used_bytes", "cpu_load_ratio", "cpu_load"),
        *("requests_total", "requests", "requests", "requests"),
        "took_seconds",
    ]


def test_points_of_one_series_have_one_id() -> None:
    def sent(service: str, *pairs: tuple[str, str]) -> ResourceMetrics:
        point = NumberDataPoint(as_int=1)
        for key, value in pairs:
            point.attributes.append(KeyValue(key=key, value=AnyValue(string_value=value)))
        resource = Resource(attributes=[KeyValue(key="service.name", value=AnyValue(string_value=service))])
        metric = Metric(name="m", gauge=Gauge(data_points=[point]))
        return ResourceMetrics(resource=resource, scope_metrics=[ScopeMetrics(metrics=[metric])])

    first = metrics.REQUEST(resource_metrics=[sent("shop", ("a", "1"), ("b", "2")), sent("shop", ("a", "2"))])
    second = metrics.REQUEST(resource_metrics=[sent("shop", ("b", "2"), ("a", "1")), sent("bank", ("a", "2"))])
    found = rows_of(METRICS, first, second).batch["series_id"].to_pylist()
    assert found[0] == found[2]
    assert len(set(found)) == 3


@pytest.mark.parametrize("part", ["name", "description", "unit", "metadata"])
def test_what_points_share_is_not_repeated_without_end(part: str) -> None:
    long = "x" * 1_000_000
    metric = Metric(name="m", gauge=Gauge(data_points=[NumberDataPoint(as_int=1)] * 2000))
    if part == "metadata":
        metric.metadata.append(KeyValue(key="k", value=AnyValue(string_value=long)))
    else:
        setattr(metric, part, long)
    with pytest.raises(RequestError, match="Send smaller batches, or shorter attributes"):
        rows_of(METRICS, request_of(metric))


def _nested(field: int, body: bytes) -> bytes:
    """Serializes a field that is a message itself."""
    assert len(body) < 128
    return bytes([field << 3 | 2, len(body)]) + body
