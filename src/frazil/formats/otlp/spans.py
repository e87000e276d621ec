"""Turns OTLP spans into rows of the table `spans`."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from frazil.formats.telemetry import attributes
from frazil.formats.telemetry.fields import SPAN_ID, TIME, TRACE_ID, counts, ids, is_zero, times
from frazil.formats.telemetry.message_lists import lists_of
from frazil.formats.telemetry.row_messages import Row, pairs
from frazil.formats.telemetry.rows import Arrival, TelemetryRows, batch_of, requests_with
from frazil.formats.telemetry.scopes import (
    ORIGIN,
    TENANT,
    TENANT_AND_SERVICE,
    Columns,
    attribute_columns,
    common_columns,
    records_of,
)

TOPIC = "spans"
REQUEST = ExportTraceServiceRequest

EVENTS = pa.list_(
    pa.struct(
        [
            # Tables have signed numbers: a time after 2262 is the negative number of the same bits.
            pa.field("time_unix_nano", pa.int64()),
            pa.field("name", pa.string()),
            *attributes.fields("attributes"),
            pa.field("dropped_attributes_count", pa.int64()),
        ]
    )
)
LINKS = pa.list_(
    pa.struct(
        [
            # Ids of links are stored as they came, because they refer to others and may have any length.
            pa.field("trace_id", pa.binary()),
            pa.field("span_id", pa.binary()),
            pa.field("trace_state", pa.string()),
            *attributes.fields("attributes"),
            pa.field("dropped_attributes_count", pa.int64()),
            pa.field("flags", pa.int64()),
        ]
    )
)

SCHEMA = pa.schema(
    [
        *TENANT_AND_SERVICE,
        pa.field("trace_id", TRACE_ID),
        pa.field("span_id", SPAN_ID),
        pa.field("parent_span_id", SPAN_ID),
        pa.field("trace_state", pa.string()),
        pa.field("name", pa.string()),
        pa.field("kind", pa.int32()),
        pa.field("timestamp", TIME, nullable=False),
        pa.field("end_timestamp", TIME),
        pa.field("duration_nanos", pa.int64()),
        pa.field("ingested_timestamp", TIME, nullable=False),
        pa.field("status_code", pa.int32()),
        pa.field("status_message", pa.string()),
        pa.field("flags", pa.int64()),
        *attributes.fields("attributes"),
        pa.field("dropped_attributes_count", pa.int64()),
        pa.field("events", EVENTS),
        pa.field("dropped_events_count", pa.int64()),
        pa.field("links", LINKS),
        pa.field("dropped_links_count", pa.int64()),
        *ORIGIN,
    ]
)

_LATEST = 2**63 - 1
_BITS = 2**64 - 1


def to_rows(requests: pa.RecordBatch, arrival: Arrival, *, dictionaries: bool = False) -> TelemetryRows:
    """Turns the spans of decoded requests into rows."""
    spans, of_request, scopes, scope_of_record, _ = records_of(requests, "resource_spans", "scope_spans", "spans")
    trace_ids, span_ids = ids(spans.field("trace_id"), TRACE_ID), ids(spans.field("span_id"), SPAN_ID)
    parents = ids(spans.field("parent_span_id"), SPAN_ID)
    starts, ends = spans.field("start_time_unix_nano"), spans.field("end_time_unix_nano")
    status_message, status_code = spans.field("status").flatten()
    columns = {
        **common_columns(scopes, scope_of_record, dictionaries=dictionaries),
        TENANT: arrival.tenants_of(of_request),
        "trace_id": trace_ids.column,
        "span_id": span_ids.column,
        "parent_span_id": parents.column,
        "trace_state": spans.field("trace_state"),
        "name": spans.field("name"),
        "kind": spans.field("kind"),
        "timestamp": times(starts, arrival.time_ns),
        "end_timestamp": times(ends, None),
        "duration_nanos": _durations(starts, ends),
        "ingested_timestamp": arrival.times(len(spans)),
        "status_code": status_code,
        "status_message": status_message,
        "flags": counts(spans.field("flags")),
        **attribute_columns("attributes", attributes.of_lists(spans.field("attributes"), dictionaries=dictionaries)),
        "dropped_attributes_count": counts(spans.field("dropped_attributes_count")),
        "events": lists_of(spans.field("events"), Span.Event, EVENTS, _events),
        "dropped_events_count": counts(spans.field("dropped_events_count")),
        "links": lists_of(spans.field("links"), Span.Link, LINKS, _links),
        "dropped_links_count": counts(spans.field("dropped_links_count")),
    }
    invalid = trace_ids.invalid + span_ids.invalid + parents.invalid
    untimed = is_zero(starts) & is_zero(ends)
    return TelemetryRows(
        batch_of(columns, SCHEMA, dictionaries=dictionaries), of_request, invalid, requests_with(untimed, of_request)
    )


def to_message(row: Row) -> Span:
    """Turns a row into a span again. If the span came without a start, it gets the time of its arrival."""
    return Span(
        trace_id=row["trace_id"] or b"",
        span_id=row["span_id"] or b"",
        parent_span_id=row["parent_span_id"] or b"",
        trace_state=row["trace_state"],
        flags=row["flags"],
        name=row["name"],
        kind=row["kind"],
        start_time_unix_nano=row["timestamp"],
        end_time_unix_nano=row["end_timestamp"] or 0,
        attributes=pairs(row, "attributes"),
        dropped_attributes_count=row["dropped_attributes_count"],
        events=[_event(each) for each in row["events"]],
        dropped_events_count=row["dropped_events_count"],
        links=[_link(each) for each in row["links"]],
        dropped_links_count=row["dropped_links_count"],
        status=_status(row),
    )


def _durations(starts: pa.Array, ends: pa.Array) -> pa.Array:
    """Returns the durations; null where a time is unknown, or the end is before the start."""
    start, end = starts.to_numpy(zero_copy_only=False), ends.to_numpy(zero_copy_only=False)
    known = (start > 0) & (start <= end) & (end <= _LATEST)
    return pa.array((end - start).astype(np.int64), mask=~known)


def _events(events: pa.RecordBatch) -> Columns:
    return {
        "time_unix_nano": events.column("time_unix_nano").view(pa.int64()),
        "name": events.column("name"),
        **attribute_columns("attributes", attributes.of_lists(events.column("attributes"))),
        "dropped_attributes_count": counts(events.column("dropped_attributes_count")),
    }


def _links(links: pa.RecordBatch) -> Columns:
    return {
        "trace_id": links.column("trace_id"),
        "span_id": links.column("span_id"),
        "trace_state": links.column("trace_state"),
        **attribute_columns("attributes", attributes.of_lists(links.column("attributes"))),
        "dropped_attributes_count": counts(links.column("dropped_attributes_count")),
        "flags": counts(links.column("flags")),
    }


def _event(event: Row) -> Span.Event:
    return Span.Event(
        time_unix_nano=event["time_unix_nano"] & _BITS,
        name=event["name"],
        attributes=pairs(event, "attributes"),
        dropped_attributes_count=event["dropped_attributes_count"],
    )


def _link(link: Row) -> Span.Link:
    return Span.Link(
        trace_id=link["trace_id"],
        span_id=link["span_id"],
        trace_state=link["trace_state"],
        attributes=pairs(link, "attributes"),
        dropped_attributes_count=link["dropped_attributes_count"],
        flags=link["flags"],
    )


def _status(row: Row) -> Status | None:
    return None if row["status_code"] is None else Status(code=row["status_code"], message=row["status_message"])
