"""Turns OTLP log records into rows of the table `logs`."""

from __future__ import annotations

import pyarrow as pa
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord

from frazil.formats.telemetry import attributes
from frazil.formats.telemetry.any_values import to_text
from frazil.formats.telemetry.attributes import Attributes
from frazil.formats.telemetry.fields import SPAN_ID, TIME, TRACE_ID, counts, ids, is_zero, times
from frazil.formats.telemetry.log_levels import DETECTED_LEVEL, LevelEvidence, detected_levels, may_name_level
from frazil.formats.telemetry.row_messages import Row, any_value, pairs
from frazil.formats.telemetry.rows import Arrival, TelemetryRows, batch_of, requests_with, types_of_values
from frazil.formats.telemetry.scopes import (
    ORIGIN,
    TENANT,
    TENANT_AND_SERVICE,
    Columns,
    ResourceScope,
    attribute_columns,
    common_columns,
    records_of,
)
from frazil.formats.telemetry.string_references import with_references

TOPIC = "logs"
REQUEST = ExportLogsServiceRequest
INGEST_PROTOCOL = "ingest_protocol"
"""The column that says by which protocol a record came, `OTLP` or Loki's push. The rules for its labels depend on
that."""
OTLP = "otlp"

SCHEMA = pa.schema(
    [
        *TENANT_AND_SERVICE,
        pa.field("timestamp", TIME, nullable=False),
        pa.field("observed_timestamp", TIME),
        pa.field("ingested_timestamp", TIME, nullable=False),
        pa.field("trace_id", TRACE_ID),
        pa.field("span_id", SPAN_ID),
        pa.field("severity_number", pa.int32()),
        pa.field("severity_text", pa.string()),
        pa.field("body", pa.string()),
        pa.field("body_type", pa.string()),
        pa.field("event_name", pa.string()),
        pa.field("flags", pa.int64()),
        *attributes.fields("attributes"),
        pa.field("dropped_attributes_count", pa.int64()),
        *ORIGIN,
        pa.field(INGEST_PROTOCOL, pa.string()),
        pa.field(DETECTED_LEVEL, pa.string()),
    ]
)


def to_rows(requests: pa.RecordBatch, arrival: Arrival, *, dictionaries: bool = False) -> TelemetryRows:
    """Turns the records of decoded requests into rows."""
    records, of_request, scopes, scope_of_record, _ = records_of(
        requests, "resource_logs", "scope_logs", "log_records"
    )
    trace_ids, span_ids = ids(records.field("trace_id"), TRACE_ID), ids(records.field("span_id"), SPAN_ID)
    body, body_codes = to_text(records.field("body"))
    shared = common_columns(scopes, scope_of_record, dictionaries=dictionaries)
    own = attributes.of_lists(records.field("attributes"), dictionaries=dictionaries)
    columns = {
        **shared,
        TENANT: arrival.tenants_of(of_request),
        "timestamp": times(records.field("time_unix_nano"), arrival.time_ns),
        "observed_timestamp": times(records.field("observed_time_unix_nano"), None),
        "ingested_timestamp": arrival.times(len(records)),
        "trace_id": trace_ids.column,
        "span_id": span_ids.column,
        "severity_number": records.field("severity_number"),
        "severity_text": records.field("severity_text"),
        "body": body,
        "body_type": with_references(types_of_values(body_codes), records.field("body"), body_codes),
        "event_name": records.field("event_name"),
        "flags": counts(records.field("flags")),
        **attribute_columns("attributes", own),
        "dropped_attributes_count": counts(records.field("dropped_attributes_count")),
        INGEST_PROTOCOL: pa.repeat(OTLP, len(records)),
        DETECTED_LEVEL: detected_levels(
            LevelEvidence(
                body,
                [own, *_shared_attributes(shared, scopes)],
                severity_texts=records.field("severity_text"),
                severity_numbers=records.field("severity_number"),
            )
        ),
    }
    untimed = is_zero(records.field("time_unix_nano")) & is_zero(records.field("observed_time_unix_nano"))
    invalid = trace_ids.invalid + span_ids.invalid
    return TelemetryRows(
        batch_of(columns, SCHEMA, dictionaries=dictionaries), of_request, invalid, requests_with(untimed, of_request)
    )


def _shared_attributes(shared: Columns, scopes: list[ResourceScope]) -> list[Attributes]:
    """Returns the attributes of resources and scopes if they may contain the level of a record."""
    if not may_name_level(scopes):
        return []
    names = ("resource_attributes", "scope_attributes")
    return [Attributes(shared[name], shared[name + attributes.TYPES]) for name in names]


def to_message(row: Row) -> LogRecord:
    """Turns a row into a log record again. If the record came without a time, it gets that of its arrival."""
    return LogRecord(
        time_unix_nano=row["timestamp"],
        observed_time_unix_nano=row["observed_timestamp"] or 0,
        severity_number=row["severity_number"],
        severity_text=row["severity_text"],
        body=any_value(row, "body"),
        attributes=pairs(row, "attributes"),
        dropped_attributes_count=row["dropped_attributes_count"],
        flags=row["flags"],
        trace_id=row["trace_id"] or b"",
        span_id=row["span_id"] or b"",
        event_name=row["event_name"],
    )
