"""Makes OTLP's messages of the spans of a trace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import pyarrow as pa
from google.protobuf.message import Message
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span, TracesData

from frazil.formats.otlp import spans
from frazil.formats.telemetry.row_messages import Row, plain_rows, resource_of, scope_of

_SPANS_BETWEEN_CHECKS = 500
_CLIENT, _SERVER = Span.SPAN_KIND_CLIENT, Span.SPAN_KIND_SERVER


def trace_message(table: pa.Table, check: Callable[[], None]) -> TracesData:
    """Returns the spans by resource and scope. Each span must be in the table once. `check` is called in between."""
    found = TracesData()
    resources: dict[tuple[bytes, str], ResourceSpans] = {}
    scopes: dict[tuple[int, bytes, str], ScopeSpans] = {}
    every: list[Span] = []
    for number, row in enumerate(plain_rows(table)):
        if number % _SPANS_BETWEEN_CHECKS == 0:
            check()
        owner = _resource_spans(row, found, resources)
        span = _scope_spans(row, owner, scopes).spans.add()
        span.CopyFrom(spans.to_message(row))
        span.status.SetInParent()
        every.append(span)
    _tell_apart(every)
    return found


def _resource_spans(row: Row, trace: TracesData, known: dict[tuple[bytes, str], ResourceSpans]) -> ResourceSpans:
    resource, url = resource_of(row), row["resource_schema_url"] or ""
    key = (_bytes(resource), url)
    if key not in known:
        known[key] = trace.resource_spans.add(resource=resource, schema_url=url)
        known[key].resource.SetInParent()
    return known[key]


def _scope_spans(row: Row, owner: ResourceSpans, known: dict[tuple[int, bytes, str], ScopeSpans]) -> ScopeSpans:
    scope, url = scope_of(row), row["scope_schema_url"] or ""
    key = (id(owner), _bytes(scope), url)
    if key not in known:
        known[key] = owner.scope_spans.add(scope=scope, schema_url=url)
        known[key].scope.SetInParent()
    return known[key]


def _bytes(message: Message | None) -> bytes:
    return b"" if message is None else message.SerializeToString(deterministic=True)


def _tell_apart(every: list[Span]) -> None:
    """Gives the server a new id where it has that of its client. It becomes the client's child, and the parent of the
    spans below."""
    by_id: dict[bytes, list[Span]] = defaultdict(list)
    children: dict[bytes, list[Span]] = defaultdict(list)
    for span in every:
        by_id[span.span_id].append(span)
        children[span.parent_span_id].append(span)
    number = 0
    for own, alike in list(by_id.items()):
        servers = [span for span in alike if span.kind == _SERVER]
        if not servers or not any(span.kind == _CLIENT for span in alike):
            continue
        number += 1
        while number.to_bytes(8, "big") in by_id:
            number += 1
        new = number.to_bytes(8, "big")
        for child in children[own]:
            if not any(child is each for each in alike):
                child.parent_span_id = new
        for server in servers:
            server.span_id, server.parent_span_id = new, own
