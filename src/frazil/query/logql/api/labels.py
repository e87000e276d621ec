"""Answers which labels, values and streams there are."""

from __future__ import annotations

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
    found = _streams(request, context, parameters_of(request))
    return _texts({name for labels in found for name, _ in labels})


def values(request: QueryRequest, context: QueryContext) -> Reply:
    name = request.path_parameters["name"]
    found = _streams(request, context, parameters_of(request))
    return _texts({value for labels in found for key, value in labels if key == name})


def series(request: QueryRequest, context: QueryContext) -> Reply:
    parameters = parameters_of(request)
    given = [*parameters.all("match[]"), *parameters.all("match")]
    if len(given) > _MOST_SELECTORS:
        raise QueryError(f"there are {len(given)} selectors (match[]); one request may have {_MOST_SELECTORS}")
    selectors = [matchers_of(text) for text in given if text] or [()]
    return success([dict(labels) for labels in sorted(_found(request, context, parameters, selectors))])


def _streams(request: QueryRequest, context: QueryContext, parameters: Parameters) -> list[SeriesLabels]:
    return _found(request, context, parameters, [matchers_of(parameters.one("query"))])


def _found(
    request: QueryRequest, context: QueryContext, parameters: Parameters, selectors: list[Matchers]
) -> list[SeriesLabels]:
    span = checked_span(parameters)
    check_length(span, None, settings_of(context.config, request.tenants))
    found = list(Survey(source_of(request, context), context).counts(span, selectors))
    context.statistics.rows_out += len(found)
    return found


def _texts(found: set[str]) -> Reply:
    """Returns a list of texts. Like Loki it leaves the list out if there are none."""
    if not found:
        return object_reply({"status": "success"})
    return success(sorted(found))
