"""Describes the signals of OpenTelemetry: requests, responses, gRPC service and HTTP path of each."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from google.protobuf.message import Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from frazil.doors.otlp.json_body import to_protobuf
from frazil.doors.telemetry.request_kind import RequestKind
from frazil.formats.otlp import logs, metrics, raw, spans
from frazil.formats.otlp.raw import RequestForm


@dataclass(frozen=True)
class Signal:
    requests: RequestKind
    response: type[Message]
    rejected_field: str
    """The field of a partial success with the number of records that will never be accepted."""
    service: str
    """The gRPC service, whose only method is `Export`."""
    path: str
    """The HTTP path."""


def _kind(topic: str, form: RequestForm) -> RequestKind:
    message = form.message
    return RequestKind(topic, form.rows_schema, message, partial(to_protobuf, message), form.to_rows, form)


LOGS = Signal(
    requests=_kind(logs.TOPIC, raw.LOGS),
    response=ExportLogsServiceResponse,
    rejected_field="rejected_log_records",
    service="opentelemetry.proto.collector.logs.v1.LogsService",
    path="/v1/logs",
)

SPANS = Signal(
    requests=_kind(spans.TOPIC, raw.SPANS),
    response=ExportTraceServiceResponse,
    rejected_field="rejected_spans",
    service="opentelemetry.proto.collector.trace.v1.TraceService",
    path="/v1/traces",
)

METRICS = Signal(
    requests=_kind(metrics.TOPIC, raw.METRICS),
    response=ExportMetricsServiceResponse,
    rejected_field="rejected_data_points",
    service="opentelemetry.proto.collector.metrics.v1.MetricsService",
    path="/v1/metrics",
)

SIGNALS = (LOGS, SPANS, METRICS)
