"""Answers which series, labels and values there are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import unquote

import numpy as np

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.query.promql.api.envelope import TRUNCATED, BadParameter, data, streamed, with_errors
from frazil.query.promql.api.parameters import limit, optional_time, parameters
from frazil.query.promql.api.results import metrics
from frazil.query.promql.api.settings import label_rules
from frazil.query.promql.parse import parse_selector
from frazil.query.promql.parse.literals import quote
from frazil.query.promql.parse.regex import matches_empty
from frazil.query.promql.parse.tree import Matcher
from frazil.query.promql.problems import InvalidQuery, ParseError
from frazil.query.promql.series.labels import LabelTable
from frazil.query.promql.storage.series_listing import SeriesListing
from frazil.web.parameters import Parameters

_ESCAPED = re.compile(r"__|_([0-9a-fA-F]{1,6})_|[^_]")


@with_errors
def names(request: QueryRequest, context: QueryContext) -> Reply:
    given = parameters(request)
    most = limit(given)
    listing, selectors = _listing(request, given, context), selectors_of(given)
    return _limited(listing.names(selectors), most)


@with_errors
def values(request: QueryRequest, context: QueryContext) -> Reply:
    given = parameters(request)
    name = unescaped(unquote(request.path_parameters["name"]))
    if not name:
        raise InvalidQuery(f"invalid label name: {quote(name)}")
    most = limit(given)
    listing, selectors = _listing(request, given, context), selectors_of(given)
    return _limited(listing.values(name, selectors), most)


@with_errors
def series(request: QueryRequest, context: QueryContext) -> Reply:
    given = parameters(request)
    if not given.all("match[]"):
        raise InvalidQuery("no match[] parameter provided")
    most = limit(given)
    try:
        selectors = selectors_of(given)
    except ParseError as error:
        raise BadParameter("match[]", error) from None
    found = _listing(request, given, context).series(selectors)
    found = found.take(found.order())
    cut = 0 < most < found.size
    if cut:
        found = found.take(np.arange(most))
    return streamed(_objects(found), [TRUNCATED] if cut else [])


def selectors_of(given: Parameters) -> list[list[Matcher]]:
    """Returns the matchers of each `match[]`."""
    found = [parse_selector(text) for text in given.all("match[]")]
    for matchers in found:
        if all(map(accepts_empty, matchers)):
            raise InvalidQuery("match[] must contain at least one non-empty matcher")
    return found


def accepts_empty(matcher: Matcher) -> bool:
    """Whether a series without the label matches."""
    if matcher.op in ("=", "!="):
        return (matcher.value == "") == (matcher.op == "=")
    return matches_empty(matcher.value) == (matcher.op == "=~")


def unescaped(name: str) -> str:
    """Returns the name that `U__…` stands for; anything else, and what is malformed, stays."""
    if not name.startswith("U__"):
        return name
    found, at = [], 3
    while at < len(name):
        match = _ESCAPED.match(name, at)
        if match is None:
            return name
        if match[0] == "__":
            found.append("_")
        elif match[1]:
            code = int(match[1], 16)
            if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
                return name
            found.append(chr(code))
        else:
            found.append(match[0])
        at = match.end()
    return "".join(found)


def _listing(request: QueryRequest, given: Parameters, context: QueryContext) -> SeriesListing:
    start, end = optional_time(given, "start"), optional_time(given, "end")
    return SeriesListing(context, request.tenants, label_rules(request, context), start, end)


def _limited(found: Sequence[str], most: int) -> Reply:
    if 0 < most < len(found):
        return data(list(found[:most]), [TRUNCATED])
    return data(list(found))


def _objects(found: LabelTable) -> Iterator[bytes]:
    yield b"[" + b",".join(metrics(found)) + b"]"
