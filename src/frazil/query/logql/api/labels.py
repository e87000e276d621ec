"""Answers which labels, values and streams there are."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.errors import QueryError
from frazil.query.logql.api.parameters import checked_span, parameters_of
from frazil.query.logql.api.queries import check_length
from frazil.query.logql.api.replies import object_reply, success
from frazil.query.logql.api.selectors import Matchers, matchers_of
from frazil.query.logql.api.stream_survey import Survey
from frazil.query.logql.api.tenants import settings_of, source_of
from frazil.query.logql.metrics.matrix import SeriesLabels
from frazil.web.parameters import Parameters

_MOST_SELECTORS = 100


def labels(request: QueryRequest, context: QueryContext) -> Reply:
    found = _of_one(request, context)
    return _texts({name for labels in found.streams for name, _ in labels}, found.complete)


def values(request: QueryRequest, context: QueryContext) -> Reply:
    name = request.path_parameters["name"]
    found = _of_one(request, context)
    return _texts({value for labels in found.streams for key, value in labels if key == name}, found.complete)


def series(request: QueryRequest, context: QueryContext) -> Reply:
    parameters = parameters_of(request)
    given = [*parameters.all("match[]"), *parameters.all("match")]
    if len(given) > _MOST_SELECTORS:
        raise QueryError(f"there are {len(given)} selectors (match[]); one request may have {_MOST_SELECTORS}")
    selectors = [matchers_of(text) for text in given if text] or [()]
    found = _of_all(request, context, parameters, selectors)
    return success([dict(labels) for labels in sorted(found.streams)], complete=found.complete)


@dataclass(frozen=True)
class _Found:
    streams: list[SeriesLabels]
    complete: bool
    """Is false if streams of the newest lines may be missing."""


def _of_one(request: QueryRequest, context: QueryContext) -> _Found:
    parameters = parameters_of(request)
    return _of_all(request, context, parameters, [matchers_of(parameters.one("query"))])


def _of_all(
    request: QueryRequest, context: QueryContext, parameters: Parameters, selectors: list[Matchers]
) -> _Found:
    span = checked_span(parameters)
    check_length(span, None, settings_of(context.config, request.tenants))
    source = source_of(request, context)
    found = list(Survey(source, context).counts(span, selectors))
    context.statistics.rows_out += len(found)
    return _Found(found, source.is_complete)


def _texts(found: set[str], complete: bool) -> Reply:
    """Returns a list of texts. Like Loki it leaves the list out if there are none."""
    if not found:
        return object_reply({"status": "success"}, complete=complete)
    return success(sorted(found), complete=complete)
