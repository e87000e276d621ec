"""Answers which attributes there are: `/api/search/tags` and its second version."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from functools import partial
from typing import TypeVar

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
from frazil.query.traceql.engine.source import SpanBatch, SpanSource
from frazil.query.traceql.engine.spans import Spans
from frazil.query.traceql.parse.names import SCOPES
from frazil.query.traceql.parse.tree import Expression

T = TypeVar("T")

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
        wanted, name = tag_filter(parameters.text("q")), ("traceql tags", *asked)
        find = partial(_keys, asked)
        for names in gathered(source, context, (start, end), wanted, _columns(asked), name, find):
            for each, key in names:
                found[each].add(key)
    scopes = {each: sorted(names)[:limit] for each, names in found.items()}
    if scope in ("", "none", "intrinsic", "trace"):
        scopes["intrinsic"] = INTRINSIC_TAGS
    return scopes, {key: value for key, value in search_metrics(source).items() if key == "inspectedBytes"}


def _columns(scopes: list[str]) -> list[str]:
    maps = [ATTRIBUTE_COLUMNS[each] for each in scopes if each in ATTRIBUTE_COLUMNS]
    lists = [each + "s" for each in scopes if each not in ATTRIBUTE_COLUMNS]
    return [*maps, *(each + "_types" for each in maps), *lists]


def _keys(scopes: list[str], spans: Spans) -> frozenset[tuple[str, str]]:
    """Returns the scopes with the names that the spans have in them."""
    found: set[tuple[str, str]] = set()
    for scope in scopes:
        of_spans = scope in ATTRIBUTE_COLUMNS
        maps = spans.attributes(ATTRIBUTE_COLUMNS[scope]) if of_spans else spans.elements(scope).attributes
        found.update((scope, key) for key in maps.keys)
    return frozenset(found)


def gathered(
    source: SpanSource,
    context: QueryContext,
    times: tuple[int, int],
    wanted: Expression,
    columns: list[str],
    name: Hashable,
    find: Callable[[Spans], frozenset[T]],
) -> Iterator[frozenset[T]]:
    """Yields what is found in the spans of a time that fulfil a condition, batch by batch.

    Where all spans of a batch fulfil it and never change, what was found in them is remembered under the name.
    """
    every = list(dict.fromkeys(["trace_id", "timestamp", *columns, *columns_of(fields_of(wanted))]))
    for batch in source.batches(*times, predicate_of(wanted), every):
        context.check()
        if wanted != TRUE:
            spans = Spans(batch.spans)
            kept = condition(wanted).test(spans)
            if kept.any():
                yield find(spans if kept.all() else Spans(batch.spans.filter(pa.array(kept))))
        elif batch.key is not None:
            yield context.cache.get((name, batch.key), partial(_found, find, batch), _size)
        else:
            yield _found(find, batch)


def _found(find: Callable[[Spans], frozenset[T]], batch: SpanBatch) -> frozenset[T]:
    return find(Spans(batch.spans))


def _size(found: frozenset[object]) -> int:
    """Returns about how many bytes a set of short texts takes."""
    return 200 + 150 * len(found)
