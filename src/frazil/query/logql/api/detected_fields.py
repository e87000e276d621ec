"""Answers which fields lines have, and which values these have."""

from __future__ import annotations

from typing import Any

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.errors import QueryError
from frazil.query.logql.api.line_fields import Field, fields_of
from frazil.query.logql.api.parameters import checked_span, limit_of, parameters_of, step_of
from frazil.query.logql.api.queries import check_entries, check_length
from frazil.query.logql.api.replies import object_reply
from frazil.query.logql.api.tenants import settings_of, source_of
from frazil.query.logql.engine import Engine
from frazil.query.logql.parse.log_tree import LogQuery
from frazil.query.logql.parse.parser import parse
from frazil.web.parameters import Parameters

_FIELDS = 1000
_LINES = 100


def detected_fields(request: QueryRequest, context: QueryContext) -> Reply:
    parameters = parameters_of(request)
    limit = _field_limit(parameters)
    found = _fields(request, context, parameters)
    shown = [_shown(name, found[name]) for name in sorted(found)[:limit]]
    return object_reply({"fields": shown, "limit": limit} if shown else {})


def values(request: QueryRequest, context: QueryContext) -> Reply:
    parameters = parameters_of(request)
    limit = _field_limit(parameters)
    found = _fields(request, context, parameters).get(request.path_parameters["name"])
    if found is None:
        return object_reply({})
    return object_reply({"values": sorted(found.values)[:limit], "limit": limit})


def _field_limit(parameters: Parameters) -> int:
    name = "field_limit" if parameters.one("field_limit") else "limit"
    return limit_of(parameters, name, _FIELDS)


def _fields(request: QueryRequest, context: QueryContext, parameters: Parameters) -> dict[str, Field]:
    span = checked_span(parameters)
    step_of(parameters, span)
    lines = limit_of(parameters, "line_limit", _LINES)
    settings = settings_of(context.config, request.tenants)
    check_entries(lines, settings.max_entries)
    text = parameters.one("query") or ""
    query = parse(text)
    if not isinstance(query, LogQuery):
        raise QueryError("only log queries have fields")
    check_length(span, query, settings)
    entries = Engine(source_of(request, context), context).logs(text, span.start_ns, span.end_ns, lines).entries
    context.check()
    return fields_of(entries)


def _shown(name: str, found: Field) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "label": name,
        "type": found.kind,
        "cardinality": len(found.values),
        "parsers": list(found.parsers) or None,
    }
    return shown | {"jsonPath": found.json_path} if found.json_path else shown
