"""The bytes of a nested message may come in several pieces, which Protobuf merges: nothing of them is lost."""

from __future__ import annotations

import pyarrow as pa
from google.protobuf.message import Message
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from opentelemetry.proto.metrics.v1.metrics_pb2 import AGGREGATION_TEMPORALITY_CUMULATIVE as CUMULATIVE
from opentelemetry.proto.metrics.v1.metrics_pb2 import Histogram, HistogramDataPoint, Metric
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from frazil.doors.otlp.signals import LOGS, METRICS
from frazil.formats.otlp import logs, metrics
from frazil.formats.telemetry.row_messages import plain_rows, resource_of, scope_of
from tests.formats.telemetry.raw_fields import raw
from tests.formats.telemetry.support import rows_of


def field(number: int, *messages: Message) -> bytes:
    """Serializes a field once for each message given. They are short."""
    found = b""
    for message in messages:
        serialized = message.SerializeToString()
        assert len(serialized) < 128
        found += bytes([number << 3 | 2, len(serialized)]) + serialized
    return found


def pair(key: str) -> KeyValue:
    return KeyValue(key=key, value=AnyValue(string_value=key))


def test_resource_and_scope() -> None:
    resources = [Resource(attributes=[pair("a")]), Resource(attributes=[pair("b")], dropped_attributes_count=3)]
    scopes = [InstrumentationScope(name="first"), InstrumentationScope(version="1")]
    records = field(2, LogRecord(time_unix_nano=1, severity_text="said"))
    body = raw(1, field(1, *resources) + raw(2, field(1, *scopes) + records))
    request = logs.REQUEST.FromString(body)
    (row,) = plain_rows(pa.Table.from_batches([rows_of(LOGS, body).batch]))
    assert resource_of(row) == request.resource_logs[0].resource
    assert scope_of(row) == request.resource_logs[0].scope_logs[0].scope


def test_histogram() -> None:
    points = [HistogramDataPoint(time_unix_nano=number, count=number, sum=0.5) for number in (1, 2, 3)]
    pieces = [
        Histogram(data_points=points[:2]),
        Histogram(data_points=points[2:], aggregation_temporality=CUMULATIVE),
    ]
    metric = field(9, *pieces) + raw(1, b"name")
    body = raw(1, raw(2, raw(2, metric)))
    (expected,) = metrics.REQUEST.FromString(body).resource_metrics[0].scope_metrics[0].metrics
    rows = plain_rows(pa.Table.from_batches([rows_of(METRICS, body).batch]))
    found = Metric(name="name", histogram=Histogram(aggregation_temporality=CUMULATIVE))
    for row in rows:
        found.histogram.data_points.extend(metrics.to_message(row).histogram.data_points)
    assert found == expected
