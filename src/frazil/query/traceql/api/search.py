"""Answers `/api/search`: by a query, or by tags as older clients ask."""

from __future__ import annotations

import re

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.query.traceql.api.messages import message_class
from frazil.query.traceql.api.parameters import Parameters
from frazil.query.traceql.api.replies import RequestRefused, refusing, reply_as_accepted
from frazil.query.traceql.api.search_results import trace_results, trace_summaries
from frazil.query.traceql.api.sources import search_metrics, spans_of
from frazil.query.traceql.api.values_json import Json
from frazil.query.traceql.engine.search import search
from frazil.query.traceql.parse.durations import format_duration
from frazil.query.traceql.parse.literals import write_text
from frazil.query.traceql.parse.parser import parse
from frazil.query.traceql.parse.tree import (
    Attribute,
    Metrics,
    MetricsOperation,
    MetricsQuery,
    Pipeline,
    Query,
    ScalarFilter,
    SecondStages,
    Static,
)
from frazil.query.traceql.validate.check import validate

DEFAULT_LIMIT, MOST_TRACES = 20, 262_144
DEFAULT_SPANS, MOST_SPANS = 3, 100

_PAIR = re.compile(r'\s*([^\s="]+)(?:=("(?:[^"\\]|\\.)*"|[^\s"]*))?(?=\s|$)')
_STATUSES = {"0": "unset", "1": "ok", "2": "error", "unset": "unset", "ok": "ok", "error": "error"}


PREFIX = "invalid TraceQL query: "


@refusing(PREFIX)
def search_traces(request: QueryRequest, context: QueryContext) -> Reply:
    return reply_as_accepted(request, search_answer(request, context), message_class("SearchResponse"))


def search_answer(request: QueryRequest, context: QueryContext) -> Json:
    parameters = Parameters(request)
    limit, spans = _limits(parameters)
    start, end = parameters.search_range()
    text = parameters.text("q")
    by_tags = not text
    if text and parameters.has("tags"):
        raise RequestRefused("invalid request: can't specify tags and q in the same query")
    query = parse(text if text else tag_query(parameters))
    validate(query)
    pipeline = searched_pipeline(query)
    source = spans_of(request, context)
    found = search(pipeline, source, context, start, end, limit)
    traces = trace_summaries(found) if by_tags else trace_results(found, pipeline, spans)
    return {"traces": traces, "metrics": search_metrics(source)}


def searched_pipeline(query: Query) -> Pipeline:
    """Returns what a search looks for. Of metrics, it is the spans that they count."""
    body = query.body
    assert not isinstance(body, ScalarFilter), "validation refuses comparisons between pipelines"
    return body if isinstance(body, Pipeline) else _pipeline_of(body)


def _pipeline_of(node: Metrics | Static) -> Pipeline:
    match node:
        case MetricsQuery():
            return node.pipeline
        case SecondStages():
            return _pipeline_of(node.metrics)
        case MetricsOperation():
            return _pipeline_of(node.right if isinstance(node.left, Static) else node.left)
    raise AssertionError("metrics have a pipeline")


def _limits(parameters: Parameters) -> tuple[int, int]:
    limit = parameters.count("limit", DEFAULT_LIMIT)
    if limit == 0:
        raise RequestRefused("invalid limit: must be a positive number")
    if limit > MOST_TRACES:
        raise RequestRefused(f"limit {limit} exceeds max limit {MOST_TRACES}")
    spans = parameters.count("spss", DEFAULT_SPANS) or DEFAULT_SPANS
    if spans > MOST_SPANS:
        raise RequestRefused(f"spans per span set exceeds {MOST_SPANS}. received {spans}")
    return limit, spans


def tag_query(parameters: Parameters) -> str:
    """Writes a search for tags as a query. Each tag may be that of another span."""
    conditions = [_tag_condition(key, value) for key, value in read_tags(parameters.text("tags")).items()]
    least, most = parameters.go_duration("minDuration"), parameters.go_duration("maxDuration")
    if least is not None and most is not None and most <= least:
        raise RequestRefused("invalid maxDuration: must be greater than minDuration")
    if least:
        conditions.append(f"traceDuration >= {format_duration(least)}")
    if most:
        conditions.append(f"traceDuration <= {format_duration(most)}")
    return " && ".join(f"{{ {each} }}" for each in conditions) or "{}"


def read_tags(text: str) -> dict[str, str]:
    """Reads `key=value key2="a value"`."""
    found: dict[str, str] = {}
    at = 0
    while text[at:].strip():
        pair = _PAIR.match(text, at)
        if pair is None:
            raise RequestRefused(f"invalid tags: {_problem(text, at)}")
        key, value = pair[1], pair[2] or ""
        if key in found:
            raise RequestRefused(f"invalid tags: tag {key} has been set twice")
        found[key] = re.sub(r"\\(.)", r"\1", value[1:-1]) if value.startswith('"') else value
        at = pair.end()
    return found


def _problem(text: str, at: int) -> str:
    quote = text.find('"', at)
    if text.count('"', at) % 2:
        return f"unterminated quoted value at pos {quote + 1}"
    return f"unexpected character at pos {at + 1}"


def _tag_condition(key: str, value: str) -> str:
    """Tags are found in texts by a part of them, in integers as a whole. One without a value is an empty text."""
    pattern = write_text(f".*{re.escape(value)}.*" if value else "")
    match key:
        case "name":
            return f"name =~ {pattern}"
        case "root.name":
            return f"rootName =~ {pattern}"
        case "root.service.name":
            return f"rootServiceName =~ {pattern}"
        case "status.code":
            if value not in _STATUSES:
                return "false"
            return f"status = {_STATUSES[value]}"
    own = [str(Attribute(scope, key)) for scope in ("span", "resource")]
    texts = [f"{name} =~ {pattern}" for name in own]
    whole = [f"{name} = {int(value)}" for name in own] if re.fullmatch(r"-?[0-9]{1,18}", value) else []
    return " || ".join([*texts, *whole])
