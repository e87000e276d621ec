"""Reads spans that are written as text, a line for each: `TRACE SPAN PARENT WORD=VALUE ...`.

The parent of a root is `-`. Words are `name`, `service`, `kind`, `status`, `message`, `start` and `took` (in
milliseconds), attributes with their scope (`span.x=5`, `resource.x="a"`, `scope.x=...`), and
`event=NAME@MILLISECONDS{x=1,y="b"}` or `link=TRACE/SPAN{...}`. Values are JSON: `5` is an integer, `5.0` is not.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, InstrumentationScope, KeyValue
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

from frazil.doors.otlp.signals import SPANS
from frazil.formats.otlp import spans
from frazil.query.traceql.parse.names import KINDS, STATUSES
from tests.formats.telemetry.support import rows_of

BASE = 1_700_000_000_000_000_000
"""Milliseconds of spans count from here."""
MILLISECOND = 10**6

_WORD = re.compile(r'([\w.:/-]+)=((?:\w+(?:@[\d.]+|/\w+)?\{[^}]*\})|\[[^\]]*\]|\{[^}]*\}|"[^"]*"|\S+)')


def read_spans(text: str) -> pa.Table:
    """Returns the rows of all lines, which came in one request."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    request = spans.REQUEST(resource_spans=[_resource_spans(line) for line in lines])
    return pa.Table.from_batches([rows_of(SPANS, request).batch])


def trace_id(name: str) -> bytes:
    return int(name, 16).to_bytes(16, "big")


def span_id(name: str) -> bytes:
    return int(name, 16).to_bytes(8, "big")


def value_of(text: str) -> AnyValue:
    return _any_value(json.loads(text))


def _any_value(plain: Any) -> AnyValue:
    match plain:
        case bool():
            return AnyValue(bool_value=plain)
        case int():
            return AnyValue(int_value=plain)
        case float():
            return AnyValue(double_value=plain)
        case str():
            return AnyValue(string_value=plain)
        case list():
            found = AnyValue()
            found.array_value.SetInParent()
            found.array_value.values.extend(_any_value(each) for each in plain)
            return found
        case dict():
            found = AnyValue()
            found.kvlist_value.SetInParent()
            found.kvlist_value.values.extend(KeyValue(key=key, value=_any_value(each)) for key, each in plain.items())
            return found
    raise ValueError(f"{plain!r} is no value of an attribute")


def _resource_spans(line: str) -> ResourceSpans:
    trace, own, parent, rest = (*line.split(maxsplit=3), "")[:4]
    span = Span(trace_id=trace_id(trace), span_id=span_id(own), start_time_unix_nano=BASE)
    if parent != "-":
        span.parent_span_id = span_id(parent)
    resource, scope = Resource(), InstrumentationScope()
    took = 0.0
    for word, value in _WORD.findall(rest):
        match word:
            case "name":
                span.name = value.strip('"')
            case "service":
                resource.attributes.add(key="service.name", value=AnyValue(string_value=value))
            case "kind":
                span.kind = KINDS.index(value)  # type: ignore[assignment]
            case "status":
                span.status.code = STATUSES.index(value)  # type: ignore[assignment]
            case "message":
                span.status.message = value.strip('"')
            case "start":
                span.start_time_unix_nano = BASE + int(float(value) * MILLISECOND)
            case "took":
                took = float(value)
            case "event":
                span.events.append(_event(value))
            case "link":
                span.links.append(_link(value))
            case "scope:name":
                scope.name = value
            case "scope:version":
                scope.version = value
            case _:
                owner, _, key = word.partition(".")
                attributes = {"span": span.attributes, "resource": resource.attributes, "scope": scope.attributes}
                attributes[owner].add(key=key, value=value_of(value))
    span.end_time_unix_nano = max(0, span.start_time_unix_nano + int(took * MILLISECOND))
    return ResourceSpans(resource=resource, scope_spans=[ScopeSpans(scope=scope, spans=[span])])


def _event(text: str) -> Span.Event:
    head, _, attributes = text.partition("{")
    name, _, at = head.partition("@")
    time = BASE + int(float(at or 0) * MILLISECOND)
    return Span.Event(name=name, time_unix_nano=time, attributes=_pairs(attributes))


def _link(text: str) -> Span.Link:
    head, _, attributes = text.partition("{")
    trace, _, span = head.partition("/")
    return Span.Link(trace_id=trace_id(trace), span_id=span_id(span), attributes=_pairs(attributes))


def _pairs(text: str) -> list[KeyValue]:
    found = [pair.partition("=") for pair in text.rstrip("}").split(",") if pair]
    return [KeyValue(key=key.strip(), value=value_of(value)) for key, _, value in found]
