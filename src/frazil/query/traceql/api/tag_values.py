"""Answers which values an attribute has: `/api/search/tag/{tag}/values` and its second version."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.query.traceql.api.messages import message_class
from frazil.query.traceql.api.parameters import Parameters
from frazil.query.traceql.api.replies import RequestRefused, refusing, reply_as_accepted
from frazil.query.traceql.api.sources import search_metrics, spans_of
from frazil.query.traceql.api.tag_filters import tag_filter
from frazil.query.traceql.api.tags import gathered
from frazil.query.traceql.api.values_json import Json
from frazil.query.traceql.engine.columns import id_bytes, whole_column
from frazil.query.traceql.engine.comparing import elements
from frazil.query.traceql.engine.fields import columns_of, element_kind
from frazil.query.traceql.engine.spans import Spans
from frazil.query.traceql.engine.values import Column, Ints, Kind
from frazil.query.traceql.errors import TraceQLError
from frazil.query.traceql.parse.literals import write_float
from frazil.query.traceql.parse.names import KINDS, STATUSES, Type
from frazil.query.traceql.parse.parser import parse_attribute
from frazil.query.traceql.parse.tree import Attribute, Field, Intrinsic, Static

MOST_BYTES = 1_000_000
"""Answers have about this many bytes of values at most, as Tempo's have by default."""

_OF_ROOT: dict[str, Field] = {"rootName": Intrinsic("name"), "rootServiceName": Attribute("resource", "service.name")}
"""Fields of a trace whose values are those of its root."""
_LISTED = frozenset(
    {
        "name",
        "statusMessage",
        "rootName",
        "rootServiceName",
        "event:name",
        "instrumentation:name",
        "instrumentation:version",
    }
)
"""The intrinsics whose values are looked for. Of others there are too many, or they mean nothing by themselves."""
_OLD_NAMES = {
    "name": Intrinsic("name"),
    "root.name": Intrinsic("rootName"),
    "root.service.name": Intrinsic("rootServiceName"),
}
_OLD_STATUSES = ["0", "1", "2", "error", "ok", "unset"]
_TYPES = {
    Type.STRING: "string",
    Type.INT: "int",
    Type.FLOAT: "float",
    Type.BOOLEAN: "bool",
    Type.DURATION: "duration",
    Type.STATUS: "keyword",
    Type.KIND: "keyword",
}


class TagValue(NamedTuple):
    type: str
    text: str


@refusing()
def tag_values(request: QueryRequest, context: QueryContext) -> Reply:
    return reply_as_accepted(request, values_answer(request, context), message_class("SearchTagValuesResponse"))


@refusing()
def typed_tag_values(request: QueryRequest, context: QueryContext) -> Reply:
    answer = typed_values_answer(request, context)
    return reply_as_accepted(request, answer, message_class("SearchTagValuesV2Response"))


def values_answer(request: QueryRequest, context: QueryContext) -> Json:
    tag = request.path_parameters["tag"]
    if not tag:
        raise RequestRefused("please provide a non-empty tagName")
    metrics: dict[str, object] = {}
    if tag == "status.code":
        values = _OLD_STATUSES
    else:
        field = _OLD_NAMES.get(tag) or Attribute("", tag)
        found, metrics = _values(request, context, field)
        values = sorted({value.text for value in found})
    return {"tagValues": values, "metrics": metrics}


def typed_values_answer(request: QueryRequest, context: QueryContext) -> Json:
    tag = request.path_parameters["tag"]
    try:
        field = parse_attribute(tag)
    except TraceQLError as error:
        raise RequestRefused(f"please provide a valid tagName: failed to parse identifier {tag}: {error}") from None
    found, metrics = _values(request, context, field)
    values = [{"type": each.type} | ({"value": each.text} if each.text else {}) for each in sorted(found)]
    return {"tagValues": values, "metrics": metrics}


def _values(request: QueryRequest, context: QueryContext, field: Field) -> tuple[set[TagValue], dict[str, object]]:
    parameters = Parameters(request)
    start, end = parameters.search_range()
    words = {"status": STATUSES, "kind": KINDS}.get(str(field))
    if words is not None:
        return {TagValue("keyword", word) for word in words}, {}
    if isinstance(field, Intrinsic) and field.name not in _LISTED:
        return set(), {}
    limit = parameters.lenient_count("limit") or None
    of_root = isinstance(field, Intrinsic) and field.name in _OF_ROOT
    looked_for = _OF_ROOT[str(field)] if of_root else field
    columns = [*columns_of(_both_scopes(looked_for)), "parent_span_id"]
    source = spans_of(request, context)
    found: set[TagValue] = set()
    size = 0
    wanted, find = tag_filter(parameters.text("q")), partial(_values_of, _both_scopes(looked_for), of_root)
    for values in gathered(source, context, (start, end), wanted, columns, ("traceql values", str(field)), find):
        for value in sorted(values - found):
            if size <= MOST_BYTES and (limit is None or len(found) < limit):
                found.add(value)
                size += len(value.text.encode())
    metrics = search_metrics(source)
    return found, {key: value for key, value in metrics.items() if key == "inspectedBytes"}


def _values_of(fields: list[Field], of_root: bool, spans: Spans) -> frozenset[TagValue]:
    rows = _roots(spans) if of_root else None
    return frozenset(value for field in fields for value in _distinct(_column(spans, field, rows)))


def _both_scopes(field: Field) -> list[Field]:
    """A name without a scope stands for all values that it has in spans and in resources."""
    if isinstance(field, Attribute) and not field.scope:
        return [Attribute("span", field.name), Attribute("resource", field.name)]
    return [field]


def _column(spans: Spans, field: Field, rows: Ints | None) -> Column:
    """Returns values of a field. Of events and links they are all values, and not only the last of each span."""
    kind = element_kind(field)
    if kind is not None:
        return spans.elements(kind).column(field)
    return spans.column(field) if rows is None else spans.column(field).take(rows)


def _roots(spans: Spans) -> Ints:
    return np.flatnonzero(~id_bytes(whole_column(spans.table, "parent_span_id"), 8).any(axis=1))


def _distinct(column: Column) -> Iterator[TagValue]:
    codes = np.unique(column.codes) if column.codes is not None else np.arange(len(column.values))
    for place in codes[codes >= 0].tolist():
        if column.values.kinds[place] == Kind.ARRAY:
            for element in elements(column.values.texts[place].as_py()):
                yield _tag_value(_static(element))
            continue
        static = column.values.static(place)
        if static.value is not None:
            yield _tag_value(static)


def _static(element: object) -> Static:
    kinds = {bool: Type.BOOLEAN, int: Type.INT, float: Type.FLOAT, str: Type.STRING}
    assert isinstance(element, bool | int | float | str)
    return Static(kinds[type(element)], element)


def _tag_value(static: Static) -> TagValue:
    if static.type is Type.FLOAT:
        assert isinstance(static.value, float)
        return TagValue("float", write_float(static.value))
    # A text is itself, and not what stands for it in a query.
    return TagValue(_TYPES[static.type], str(static.value if static.type is Type.STRING else static))
