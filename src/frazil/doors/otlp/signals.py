"""The signals of OpenTelemetry, in all that the door needs to know of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pyarrow as pa
from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from frazil.telemetry import logs, metrics, spans
from frazil.telemetry.rows import Arrival, Rows


@dataclass(frozen=True)
class Signal:
    topic: str
    schema: pa.Schema
    request: type[Message]
    response: type[Message]
    rejected_field: str
    """Of a partial success: how many records will never be accepted."""
    service: str
    """Of gRPC; its only method is `Export`."""
    path: str
    """Of HTTP."""
    to_rows: Callable[[pa.RecordBatch, Arrival], Rows]


LOGS = Signal(
    topic=logs.TOPIC,
    schema=logs.SCHEMA,
    request=logs.REQUEST,
    response=ExportLogsServiceResponse,
    rejected_field="rejected_log_records",
    service="opentelemetry.proto.collector.logs.v1.LogsService",
    path="/v1/logs",
    to_rows=logs.to_rows,
)

SPANS = Signal(
    topic=spans.TOPIC,
    schema=spans.SCHEMA,
    request=spans.REQUEST,
    response=ExportTraceServiceResponse,
    rejected_field="rejected_spans",
    service="opentelemetry.proto.collector.trace.v1.TraceService",
    path="/v1/traces",
    to_rows=spans.to_rows,
)

METRICS = Signal(
    topic=metrics.TOPIC,
    schema=metrics.SCHEMA,
    request=metrics.REQUEST,
    response=ExportMetricsServiceResponse,
    rejected_field="rejected_data_points",
    service="opentelemetry.proto.collector.metrics.v1.MetricsService",
    path="/v1/metrics",
    to_rows=metrics.to_rows,
)

SIGNALS = (LOGS, SPANS, METRICS)
