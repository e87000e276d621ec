"""Answers `/api/metrics/summary`, which Tempo had up to version 2."""

from __future__ import annotations

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.query.traceql.api.metrics import check_range
from frazil.query.traceql.api.parameters import Parameters
from frazil.query.traceql.api.replies import RequestRefused, json_reply, number, refusing
from frazil.query.traceql.api.sources import spans_of
from frazil.query.traceql.api.values_json import Json
from frazil.query.traceql.engine.metrics.evaluation import Question
from frazil.query.traceql.engine.metrics.grid import Grid
from frazil.query.traceql.engine.metrics.summaries import Summary, summarise
from frazil.query.traceql.errors import TraceQLInvalid
from frazil.query.traceql.parse.names import Type
from frazil.query.traceql.parse.parser import parse, parse_attribute
from frazil.query.traceql.parse.tree import Field, Pipeline, Static
from frazil.query.traceql.validate.check import validate

MOST_GROUPS = 5

_TYPES = {
    Type.INT: 3,
    Type.FLOAT: 4,
    Type.STRING: 5,
    Type.BOOLEAN: 6,
    Type.DURATION: 7,
    Type.STATUS: 8,
    Type.KIND: 9,
}
"""Numbers of types in Tempo's messages; nil is 0, which is left out."""
_STATUSES = ("error", "ok", "unset")
_KINDS = ("unspecified", "internal", "client", "server", "producer", "consumer")
"""Their places are the numbers in Tempo's messages, which are not those of OTLP."""


@refusing("invalid TraceQL query: ")
def metrics_summary(request: QueryRequest, context: QueryContext) -> Reply:
    parameters = Parameters(request)
    start, end = parameters.metrics_range()
    if start >= end:
        raise RequestRefused("end must be greater than start")
    check_range(start, end)
    for name in ("q", "groupBy"):
        if not parameters.has(name):
            raise RequestRefused(f"parameter {name} is missing")
    pipeline, by = _pipeline(parameters.text("q")), _fields(parameters.text("groupBy"))
    question = Question(spans_of(request, context), context, Grid.instant(start, end), 0)
    return json_reply({"summaries": [_json(by, each) for each in summarise(pipeline, by, question)]})


def _pipeline(text: str) -> Pipeline:
    query = parse(text)
    validate(query)
    if not isinstance(query.body, Pipeline):
        raise TraceQLInvalid(f"a summary is made of spans, and not of {query}")
    return query.body


def _fields(text: str) -> tuple[Field, ...]:
    fields = tuple(parse_attribute(each.strip()) for each in text.split(","))
    if len(fields) > MOST_GROUPS:
        raise RequestRefused(f"groupBy has {len(fields)} values; there may be {MOST_GROUPS}")
    for field in fields:
        validate(parse(f"{{}} | by({field})"))
    return fields


def _json(by: tuple[Field, ...], summary: Summary) -> Json:
    """Writes 64-bit integers as text and leaves out zeros, as protobuf's JSON does."""
    numbers = {"spanCount": summary.spans, "errorSpanCount": summary.errors, **summary.quantiles}
    series = [{"key": str(field), "value": _value(value)} for field, value in zip(by, summary.values, strict=True)]
    return {name: str(count) for name, count in numbers.items() if count} | {"series": series}


def _value(value: Static) -> Json:
    found: Json = {"type": _TYPES[value.type]} if value.type in _TYPES else {}
    match value.type, value.value:
        case Type.INT, int(whole):
            own: Json = {"n": str(whole)}
        case Type.FLOAT, float(broken):
            own = {"f": number(broken)}
        case Type.BOOLEAN, truth:
            own = {"b": bool(truth)}
        case Type.DURATION, int(nanoseconds):
            own = {"d": str(nanoseconds)}
        case Type.STATUS, status:
            own = {"status": _STATUSES.index(str(status))}
        case Type.KIND, kind:
            own = {"kind": _KINDS.index(str(kind))}
        case _, None:
            own = {}
        case _, text:
            own = {"s": str(text)}
    return found | {name: given for name, given in own.items() if given not in (0, "0", "", False)}
