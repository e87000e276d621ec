"""Answers which labels are worth showing, and how many values each has."""

from __future__ import annotations

import re

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.query.logql.api.parameters import checked_span, parameters_of
from frazil.query.logql.api.queries import check_length
from frazil.query.logql.api.replies import object_reply
from frazil.query.logql.api.selectors import matchers_of
from frazil.query.logql.api.stream_survey import Survey
from frazil.query.logql.api.tenants import settings_of, source_of

_ALWAYS = frozenset({"cluster", "namespace", "instance", "pod"})
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII)
_FLAGS = frozenset({"0", "1"})


def detected_labels(request: QueryRequest, context: QueryContext) -> Reply:
    parameters = parameters_of(request)
    span = checked_span(parameters)
    check_length(span, None, settings_of(context.config, request.tenants))
    matchers = matchers_of(parameters.one("query"))
    values: dict[str, set[str]] = {}
    for labels in Survey(source_of(request, context), context).counts(span, [matchers]):
        for name, value in labels:
            values.setdefault(name, set()).add(value)
    shown = [
        {"label": name, "cardinality": len(found)}
        for name, found in sorted(values.items())
        if name in _ALWAYS or not _are_ids(found)
    ]
    return object_reply({"detectedLabels": shown} if shown else {})


def _are_ids(values: set[str]) -> bool:
    """Returns whether all values are numbers or UUIDs, by which nobody groups."""
    if values <= _FLAGS:
        return False
    return all(_NUMBER.fullmatch(value) or _UUID.fullmatch(value) for value in values)
