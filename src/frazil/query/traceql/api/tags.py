"""Answers which attributes there are: `/api/search/tags` and its second version."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.query.traceql.api.messages import message_class
from frazil.query.traceql.api.parameters import Parameters
from frazil.query.traceql.api.replies import RequestRefused, refusing, reply_as_accepted
from frazil.query.traceql.api.sources import search_metrics, spans_of
from frazil.query.traceql.api.tag_filters import tag_filter
from frazil.query.traceql.api.values_json import Json
from frazil.query.traceql.engine.fields import ATTRIBUTE_COLUMNS, columns_of, fields_of
from frazil.query.traceql.engine.pipelines import condition
from frazil.query.traceql.engine.pushdown import predicate_of
from frazil.query.traceql.engine.seeds import TRUE
from frazil.query.traceql.engine.source import SpanSource
from frazil.query.traceql.engine.spans import Spans
from frazil.query.traceql.parse.names import SCOPES
from frazil.query.traceql.parse.tree import Expression

INTRINSIC_TAGS = [
    "duration",
    "event:name",
    "event:timeSinceStart",
    "instrumentation:name",
    "instrumentation:version",
    "kind",
    "link:spanID",
    "link:traceID",
    "name",
    "rootName",
    "rootServiceName",
    "span:duration",
    "span:id",
    "span:kind",
    "span:name",
    "span:parentID",
    "span:status",
    "span:statusMessage",
    "status",
    "statusMessage",
    "trace:duration",
    "trace:id",
    "trace:rootName",
    "trace:rootService",
    "traceDuration",
]
_KNOWN_SCOPES = frozenset({"", "none", "trace", "intrinsic", *SCOPES})


@refusing()
def tag_names(request: QueryRequest, context: QueryContext) -> Reply:
    return reply_as_accepted(request, names_answer(request, context), message_class("SearchTagsResponse"))


@refusing()
def tag_names_by_scope(request: QueryRequest, context: QueryContext) -> Reply:
    return reply_as_accepted(request, scopes_answer(request, context), message_class("SearchTagsV2Response"))


def names_answer(request: QueryRequest, context: QueryContext) -> Json:
    scopes, metrics = _scopes(request, context)
    names = sorted({name for scope, own in scopes.items() for name in own if scope != "intrinsic"})
    if Parameters(request).text("scope") == "intrinsic":
        names = INTRINSIC_TAGS
    return {"tagNames": names, "metrics": metrics}


def scopes_answer(request: QueryRequest, context: QueryContext) -> Json:
    scopes, metrics = _scopes(request, context)
    return {"scopes": [{"name": scope, "tags": own} for scope, own in scopes.items() if own], "metrics": metrics}


def _scopes(request: QueryRequest, context: QueryContext) -> tuple[dict[str, list[str]], dict[str, object]]:
    """Returns the names of the scopes that are asked for, and what it cost to find them."""
    parameters = Parameters(request)
    scope = parameters.text("scope")
    if scope not in _KNOWN_SCOPES:
        raise RequestRefused(f"invalid scope: {scope}")
    start, end = parameters.search_range()
    limit = parameters.lenient_count("limit") or None
    asked = [each for each in ("resource", "span", "event", "link", "instrumentation") if scope in (each, "", "none")]
    source = spans_of(request, context)
    found: dict[str, set[str]] = {each: set() for each in asked}
    if asked:
        for spans in matching_spans(source, context, start, end, tag_filter(parameters.text("q")), _columns(asked)):
            for each in asked:
                found[each].update(_keys(spans, each))
    scopes = {each: sorted(names)[:limit] for each, names in found.items()}
    if scope in ("", "none", "intrinsic", "trace"):
        scopes["intrinsic"] = INTRINSIC_TAGS
    return scopes, {key: value for key, value in search_metrics(source).items() if key == "inspectedBytes"}


def _columns(scopes: list[str]) -> list[str]:
    maps = [ATTRIBUTE_COLUMNS[each] for each in scopes if each in ATTRIBUTE_COLUMNS]
    lists = [each + "s" for each in scopes if each not in ATTRIBUTE_COLUMNS]
    return [*maps, *(each + "_types" for each in maps), *lists]


def _keys(spans: Spans, scope: str) -> list[str]:
    if scope in ATTRIBUTE_COLUMNS:
        return spans.attributes(ATTRIBUTE_COLUMNS[scope]).keys
    return spans.elements(scope).attributes.keys


def matching_spans(
    source: SpanSource, context: QueryContext, start_ns: int, end_ns: int, wanted: Expression, columns: list[str]
) -> Iterator[Spans]:
    """Yields the spans of a time that fulfil a condition, batch by batch."""
    every = list(dict.fromkeys(["trace_id", "timestamp", *columns, *columns_of(fields_of(wanted))]))
    for batch in source.batches(start_ns, end_ns, predicate_of(wanted), every):
        context.check()
        spans = Spans(batch.spans)
        if wanted != TRUE:
            kept = condition(wanted).test(spans)
            if not kept.any():
                continue
            if not kept.all():
                spans = Spans(batch.spans.filter(pa.array(np.asarray(kept))))
        yield spans
