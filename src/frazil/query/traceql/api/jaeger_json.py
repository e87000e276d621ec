"""Writes traces as Jaeger's JSON."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable
from typing import Any

from google.protobuf import json_format
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status, TracesData

from frazil.query.traceql.api.values_json import Json

_SERVICE = "service.name"
_STATUSES = {Status.STATUS_CODE_OK: "OK", Status.STATUS_CODE_ERROR: "ERROR"}


def jaeger_trace(trace: TracesData) -> Json:
    """Each resource becomes a process."""
    processes: Json = {}
    spans: list[Json] = []
    for number, resource_spans in enumerate(trace.resource_spans, 1):
        attributes = resource_spans.resource.attributes
        names = [pair.value.string_value for pair in attributes if pair.key == _SERVICE]
        tags = _tags(pair for pair in attributes if pair.key != _SERVICE)
        processes[f"p{number}"] = {"serviceName": names[0] if names else "", "tags": tags}
        for scope_spans in resource_spans.scope_spans:
            spans += [_span(span, scope_spans.scope, f"p{number}") for span in scope_spans.spans]
    return {"traceID": spans[0]["traceID"], "spans": spans, "processes": processes, "warnings": None}


def _span(span: Span, scope: InstrumentationScope, process: str) -> Json:
    trace = span.trace_id.hex()
    references = [_reference("FOLLOWS_FROM", link.trace_id.hex(), link.span_id.hex()) for link in span.links]
    if span.parent_span_id:
        references.insert(0, _reference("CHILD_OF", trace, span.parent_span_id.hex()))
    return {
        "traceID": trace,
        "spanID": span.span_id.hex(),
        "flags": 1,
        "operationName": span.name,
        "references": references,
        "startTime": span.start_time_unix_nano // 1000,
        "duration": max(0, span.end_time_unix_nano - span.start_time_unix_nano) // 1000,
        "tags": [*_tags(span.attributes), *_tags_of_span(span, scope)],
        "logs": [
            {
                "timestamp": event.time_unix_nano // 1000,
                "fields": [_tag("event", "string", event.name), *_tags(event.attributes)],
            }
            for event in span.events
        ],
        "processID": process,
        "warnings": None,
    }


def _reference(kind: str, trace: str, span: str) -> Json:
    return {"refType": kind, "traceID": trace, "spanID": span}


def _tags_of_span(span: Span, scope: InstrumentationScope) -> Iterable[Json]:
    """Yields tags for what Jaeger has no place for."""
    if span.kind:
        yield _tag("span.kind", "string", Span.SpanKind.Name(span.kind).removeprefix("SPAN_KIND_").lower())
    if span.status.code in _STATUSES:
        yield _tag("otel.status_code", "string", _STATUSES[span.status.code])
    if span.status.code == Status.STATUS_CODE_ERROR:
        yield _tag("error", "bool", True)
    for key, text in (
        ("otel.status_description", span.status.message),
        ("otel.scope.name", scope.name),
        ("otel.scope.version", scope.version),
        ("w3c.tracestate", span.trace_state),
    ):
        if text:
            yield _tag(key, "string", text)


def _tags(pairs: Iterable[KeyValue]) -> list[Json]:
    return [_tag(pair.key, *_typed(pair.value)) for pair in pairs]


def _typed(value: AnyValue) -> tuple[str, Any]:
    match value.WhichOneof("value"):
        case "bool_value":
            return "bool", value.bool_value
        case "int_value":
            return "int64", value.int_value
        case "double_value":
            return "float64", value.double_value
        case "bytes_value":
            return "binary", base64.b64encode(value.bytes_value).decode()
        case "array_value" | "kvlist_value":
            return "string", json.dumps(json_format.MessageToDict(value), separators=(",", ":"))
    return "string", value.string_value


def _tag(key: str, kind: str, value: Any) -> Json:
    return {"key": key, "type": kind, "value": value}
