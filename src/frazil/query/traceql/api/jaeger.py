"""Answers Jaeger's API: services, operations, traces and dependencies."""

from __future__ import annotations

import functools
import json
import re
import time
from typing import Any

import numpy as np
import orjson
import pyarrow as pa

from frazil.engine.interface import Answer, QueryContext, QueryRequest, Reply
from frazil.formats.otlp.spans import SCHEMA
from frazil.query.traceql.api.bounded_lookup import look_up
from frazil.query.traceql.api.jaeger_json import jaeger_trace
from frazil.query.traceql.api.parameters import Parameters
from frazil.query.traceql.api.replies import JSON, RequestRefused
from frazil.query.traceql.api.sources import spans_of
from frazil.query.traceql.api.tags import gathered
from frazil.query.traceql.api.trace_messages import trace_message
from frazil.query.traceql.api.traces import trace_id
from frazil.query.traceql.engine.dependencies import service_calls
from frazil.query.traceql.engine.fields import columns_of
from frazil.query.traceql.engine.search import TRACE_MARGIN_NS, search
from frazil.query.traceql.engine.seeds import TRUE
from frazil.query.traceql.engine.spans import Spans
from frazil.query.traceql.engine.traces import Traces, assemble
from frazil.query.traceql.errors import TraceQLError
from frazil.query.traceql.parse.durations import format_duration
from frazil.query.traceql.parse.literals import write_text
from frazil.query.traceql.parse.names import KINDS, Type
from frazil.query.traceql.parse.parser import parse
from frazil.query.traceql.parse.tree import Attribute, Binary, Intrinsic, Pipeline, Static
from frazil.query.traceql.validate.check import validate

DAY_NS = 24 * 3600 * 10**9
"""Services and operations are those of the last day."""
HOUR_NS = 3600 * 10**9
DEFAULT_LIMIT, MOST_TRACES = 100, 1500

_SERVICE = Attribute("resource", "service.name")
_NAME, _KIND = Intrinsic("name"), Intrinsic("kind")
_STATUSES = {"OK": "ok", "ERROR": "error", "UNSET": "unset"}


def _enveloped(answer: Answer) -> Answer:
    """Turns what is wrong with a request into an answer in Jaeger's shape."""

    @functools.wraps(answer)
    def wrapped(request: QueryRequest, context: QueryContext) -> Reply:
        try:
            return answer(request, context)
        except RequestRefused as error:
            return _envelope(None, error.status, str(error))
        except TraceQLError as error:
            return _envelope(None, 400, str(error))

    return wrapped


def _envelope(data: list[Any] | None, status: int = 200, error: str = "") -> Reply:
    errors = [{"code": status, "msg": error}] if error else None
    body = {"data": data, "total": len(data or ()), "limit": 0, "offset": 0, "errors": errors}
    return Reply(status, {"content-type": JSON}, [orjson.dumps(body)])


@_enveloped
def services(request: QueryRequest, context: QueryContext) -> Reply:
    end = time.time_ns()
    source, columns = spans_of(request, context), columns_of([_SERVICE])
    names = gathered(source, context, (end - DAY_NS, end), TRUE, columns, "jaeger services", _services_of)
    return _envelope(sorted(frozenset().union(*names)) or None)


def _services_of(spans: Spans) -> frozenset[str]:
    column = spans.column(_SERVICE)
    assert column.codes is not None, "services are a dictionary"
    used = np.unique(column.codes[column.codes >= 0])
    return frozenset(column.values.texts.take(pa.array(used)).to_pylist())


@_enveloped
def operations_of_service(request: QueryRequest, context: QueryContext) -> Reply:
    found = _operations(request, context, request.path_parameters["service"])
    return _envelope(sorted({name for name, _ in found}))


@_enveloped
def operations(request: QueryRequest, context: QueryContext) -> Reply:
    parameters = Parameters(request)
    if not parameters.has("service"):
        raise RequestRefused("parameter 'service' is required")
    wanted = parameters.text("spanKind")
    found = sorted(_operations(request, context, parameters.text("service")))
    return _envelope([{"name": name, "spanKind": kind} for name, kind in found if wanted in ("", kind)])


def _operations(request: QueryRequest, context: QueryContext, service: str) -> set[tuple[str, str]]:
    wanted = Binary("=", _SERVICE, Static(Type.STRING, service))
    end = time.time_ns()
    source, columns = spans_of(request, context), columns_of([_NAME, _KIND])
    found = gathered(source, context, (end - DAY_NS, end), wanted, columns, "jaeger operations", _operations_of)
    return set().union(*found)


def _operations_of(spans: Spans) -> frozenset[tuple[str, str]]:
    """Returns names with kinds. The kind is empty where a span has none."""
    names, kinds = spans.column(_NAME), spans.column(_KIND)
    assert names.codes is not None, "names are a dictionary"
    assert kinds.codes is not None, "kinds are codes"
    pairs = np.unique(np.stack([names.codes, kinds.codes]), axis=1).T.tolist()
    return frozenset((names.values.texts[name].as_py(), KINDS[kind] if kind > 0 else "") for name, kind in pairs)


@_enveloped
def trace(request: QueryRequest, context: QueryContext) -> Reply:
    found = _by_ids(request, context, [trace_id(request.path_parameters["id"])])
    if not found:
        raise RequestRefused("trace not found", 404)
    return _envelope(found)


@_enveloped
def traces(request: QueryRequest, context: QueryContext) -> Reply:
    parameters = Parameters(request)
    if ids := parameters.texts("traceID"):
        found = _by_ids(request, context, [trace_id(each) for each in ids])
        if not found:
            raise RequestRefused("trace not found", 404)
        return _envelope(found)
    if not parameters.has("service"):
        raise RequestRefused("parameter 'service' is required")
    limit = min(parameters.count("limit", DEFAULT_LIMIT) or DEFAULT_LIMIT, MOST_TRACES)
    query = parse(search_query(parameters))
    validate(query)
    assert isinstance(query.body, Pipeline)
    end = _moment(parameters, "end", 1000, time.time_ns())
    start = _moment(parameters, "start", 1000, end - HOUR_NS)
    if start > end:
        raise RequestRefused("parameter 'start' must be before 'end'")
    parts = search(query.body, spans_of(request, context), context, start, end, limit)
    own = [part.traces.ids[number].as_py() for part in parts for number in part.numbers]
    if not own:
        return _envelope([])
    found = spans_of(request, context).traces(own, start - TRACE_MARGIN_NS, end + TRACE_MARGIN_NS, SCHEMA.names)
    return _envelope(_shown(context, assemble(found), own))


def _by_ids(request: QueryRequest, context: QueryContext, ids: list[bytes]) -> list[Any]:
    found = look_up(ids, spans_of(request, context), context, None, None)
    found.check_whole()
    return _shown(context, found.traces, ids)


def _shown(context: QueryContext, found: Traces, ids: list[bytes]) -> list[Any]:
    """Returns traces in the order of their ids here."""
    context.hold(found.table.nbytes)
    rows = {each: number for number, each in enumerate(found.ids.to_pylist())}
    shown = []
    for each in dict.fromkeys(ids):
        context.check()
        if each in rows:
            start, end = (int(place) for place in found.first_rows[rows[each] : rows[each] + 2])
            shown.append(jaeger_trace(trace_message(found.table.slice(start, end - start), context.check)))
    return shown


def search_query(parameters: Parameters) -> str:
    """Writes a search as a query. All that is asked for must be so of one span."""
    conditions = [f"resource.service.name = {write_text(parameters.text('service'))}"]
    if parameters.has("operation"):
        conditions.append(f"name = {write_text(parameters.text('operation'))}")
    conditions += [_tag_condition(key, value) for key, value in _tags(parameters).items()]
    for name, operator in (("minDuration", ">="), ("maxDuration", "<=")):
        duration = parameters.go_duration(name)
        if duration is not None:
            conditions.append(f"duration {operator} {format_duration(duration)}")
    return "{ " + " && ".join(f"({each})" for each in conditions) + " }"


def _tags(parameters: Parameters) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in parameters.texts("tag"):
        key, separator, value = text.partition(":")
        if not separator:
            raise RequestRefused(f"malformed 'tag' parameter, expecting key:value, received: {text}")
        found[key] = value
    if parameters.has("tags"):
        try:
            given = json.loads(parameters.text("tags"))
        except (json.JSONDecodeError, RecursionError) as error:
            raise RequestRefused(f"malformed 'tags' parameter, cannot unmarshal JSON: {error}") from None
        if not isinstance(given, dict) or not all(isinstance(each, str) for each in given.values()):
            raise RequestRefused("malformed 'tags' parameter, expecting an object of strings")
        found |= given
    return found


def _tag_condition(key: str, value: str) -> str:
    """A tag is one of the span, of its resource or of an event. Its value is compared as text, whatever its type."""
    literals = [write_text(value)]
    if re.fullmatch(r"-?[0-9]{1,18}", value):
        literals.append(str(int(value)))
    elif re.fullmatch(r"-?[0-9]+\.[0-9]+", value):
        literals.append(value)
    if value in ("true", "false"):
        literals.append(value)
    own = [str(Attribute(scope, key)) for scope in ("span", "resource", "event")] if key else []
    found = [f"{name} = {literal}" for name in own for literal in literals]
    if key == "error":
        found.append("status = error" if value == "true" else "status != error")
    if key == "span.kind" and value in KINDS:
        found.append(f"kind = {value}")
    if key == "otel.status_code" and value in _STATUSES:
        found.append(f"status = {_STATUSES[value]}")
    return " || ".join(found) or "false"


@_enveloped
def dependencies(request: QueryRequest, context: QueryContext) -> Reply:
    parameters = Parameters(request)
    end = _moment(parameters, "endTs", 10**6, time.time_ns())
    lookback = _moment(parameters, "lookback", 10**6, DAY_NS)
    service = parameters.text("service")
    calls = service_calls(spans_of(request, context), context, end - lookback, end)
    return _envelope(
        [
            {"parent": parent, "child": child, "callCount": count}
            for (parent, child), count in sorted(calls.items())
            if service in ("", parent, child)
        ]
    )


def _moment(parameters: Parameters, name: str, unit: int, otherwise: int) -> int:
    """Returns a number of units of time in nanoseconds."""
    text = parameters.text(name)
    if not text:
        return otherwise
    if not re.fullmatch(r"[0-9]{1,19}", text):
        raise RequestRefused(f"unable to parse param '{name}': strconv.ParseInt: parsing \"{text}\": invalid syntax")
    return min(int(text) * unit, 2**62)
