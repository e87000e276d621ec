"""Answers `/api/traces/{id}` and `/api/v2/traces/{id}`."""

from __future__ import annotations

import re

import pyarrow as pa
from google.protobuf import json_format
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.query.traceql.api.bounded_lookup import LookedUp, look_up
from frazil.query.traceql.api.messages import message_class
from frazil.query.traceql.api.parameters import SECOND, Parameters
from frazil.query.traceql.api.replies import (
    RequestRefused,
    json_reply,
    protobuf_reply,
    refusing,
    text_reply,
    wants_protobuf,
)
from frazil.query.traceql.api.sources import search_metrics, spans_of
from frazil.query.traceql.api.trace_messages import trace_message
from frazil.query.traceql.api.values_json import Json
from frazil.query.traceql.engine.pipelines import condition
from frazil.query.traceql.engine.search import TRACE_MARGIN_NS
from frazil.query.traceql.errors import TraceQLInvalid
from frazil.query.traceql.parse.parser import parse
from frazil.query.traceql.parse.tree import Expression, Filter, Pipeline
from frazil.query.traceql.validate.check import validate

_MODES = frozenset({"", "all", "blocks", "ingesters", "external"})
_PARTIAL = 1
"""The number of this status in Tempo's messages."""


@refusing()
def trace_v1(request: QueryRequest, context: QueryContext) -> Reply:
    """This version cannot say that a trace is not whole, so it returns whole ones only."""
    looked, _ = _look_up(request, context)
    looked.check_whole(ending="\n")
    table = looked.traces.table
    if not len(table):
        return text_reply("", 404)
    trace = trace_message(table, context.check)
    if wants_protobuf(request):
        return protobuf_reply(trace)
    return json_reply({"batches": _resource_spans(trace)})


@refusing("invalid TraceQL query: ")
def trace_v2(request: QueryRequest, context: QueryContext) -> Reply:
    """An unknown trace is an empty one here."""
    wanted = _wanted(Parameters(request).text("q"))
    looked, inspected = _look_up(request, context)
    found = looked.traces
    table = found.table if wanted is None else found.table.filter(pa.array(condition(wanted).test(found)))
    trace = trace_message(table, context.check) if len(table) else None
    problem = _problem(looked)
    if wants_protobuf(request):
        message = message_class("TraceByIDResponse")()
        # The field must be there even if it is empty: Grafana reads from it without asking.
        message.trace.SetInParent()
        message.metrics.inspectedBytes = inspected
        if trace is not None:
            message.trace.MergeFromString(trace.SerializeToString())
        if problem:
            message.status, message.message = _PARTIAL, problem
        return protobuf_reply(message)
    metrics = {"inspectedBytes": str(inspected)} if inspected else {}
    partial = {"status": "PARTIAL", "message": problem} if problem else {}
    shown = {} if trace is None else {"resourceSpans": _resource_spans(trace)}
    return json_reply({"trace": shown, "metrics": metrics} | partial)


def _problem(looked: LookedUp) -> str:
    """Says why spans of the trace may be missing; empty if it is whole."""
    size = f"Trace exceeds maximum size of {looked.most_bytes} bytes, a partial trace is returned"
    return ". ".join(([size] if looked.too_large else []) + ([looked.unsearched] if looked.unsearched else []))


def _look_up(request: QueryRequest, context: QueryContext) -> tuple[LookedUp, int]:
    """Returns the trace, and how many bytes were read to find it."""
    own = trace_id(request.path_parameters["id"])
    parameters = Parameters(request)
    start, end = _range(parameters)
    if parameters.text("mode") not in _MODES:
        raise RequestRefused(f"invalid value for mode {parameters.text('mode')}")
    source = spans_of(request, context)
    found = look_up([own], source, context, start, end)
    context.check()
    return found, int(search_metrics(source).get("inspectedBytes", 0))


def _wanted(text: str) -> Expression | None:
    """Reads the filter that says which spans of the trace are wanted."""
    if not text:
        return None
    query = parse(text)
    validate(query)
    match query.body:
        case Pipeline(stages=(Filter() as only,)):
            return only.expression
    raise TraceQLInvalid(f"the spans of a trace are chosen by one filter, and not by {query}")


def trace_id(text: str) -> bytes:
    """Reads an id. It may be shorter than its 32 digits, which are then preceded by zeros."""
    wrong = re.search(r"[^0-9a-fA-F]", text)
    if wrong or not text:
        what = f"invalid character '{wrong[0]}' at position {wrong.start() + 1}" if wrong else "it is empty"
        raise RequestRefused(f"trace IDs can only contain hex characters: {what}")
    if len(text) > 32:
        raise RequestRefused("trace IDs can't be larger than 128 bits")
    return bytes.fromhex(text.zfill(32))


def _range(parameters: Parameters) -> tuple[int | None, int | None]:
    """Returns the time in which the trace is looked for. It is found whole if it reaches into the range."""
    start, end = parameters.count("start", 0), parameters.count("end", 0)
    if not start and not end:
        return None, None
    if end <= start:
        raise RequestRefused(f"http parameter start must be before end. received start={start} end={end}")
    return start * SECOND - TRACE_MARGIN_NS, end * SECOND + TRACE_MARGIN_NS


def _resource_spans(trace: TracesData) -> list[Json]:
    found: list[Json] = json_format.MessageToDict(trace).get("resourceSpans", [])
    return found
