"""Answers what is known of metrics and of targets."""

from __future__ import annotations

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.query.promql.api.envelope import data, with_errors
from frazil.query.promql.api.parameters import parameters, text
from frazil.query.promql.parse.tree import METRIC_NAME, Matcher
from frazil.query.promql.problems import InvalidQuery
from frazil.query.promql.storage.metric_metadata import descriptions
from frazil.query.promql.storage.metric_names import NameCondition
from frazil.web.parameters import Parameters


@with_errors
def metadata(request: QueryRequest, context: QueryContext) -> Reply:
    given = parameters(request)
    most, most_each = _number(given, "limit"), _number(given, "limit_per_metric")
    metric = text(given, "metric")
    names = NameCondition((Matcher(METRIC_NAME, "=", metric),) if metric else ())
    found: dict[str, list[dict[str, str]]] = {}
    for each in descriptions(context, request.tenants, names, None):
        if metric and each.name != metric:
            continue
        if each.name not in found and most is not None and len(found) >= most:
            break
        of_metric = found.setdefault(each.name, [])
        if not most_each or len(of_metric) < most_each:
            of_metric.append({"type": each.type, "unit": each.unit, "help": each.help})
    return data(found)


def _number(given: Parameters, name: str) -> int | None:
    value = text(given, name)
    if not value:
        return None
    try:
        found = int(value)
    except ValueError:
        raise InvalidQuery(f"{name.removesuffix('_per_metric')} must be a number") from None
    return found if found >= 0 else None


@with_errors
def targets_metadata(request: QueryRequest, context: QueryContext) -> Reply:
    """Answers with nothing, because nothing is scraped here."""
    return data([])


@with_errors
def targets(request: QueryRequest, context: QueryContext) -> Reply:
    return data({"activeTargets": [], "droppedTargets": [], "droppedTargetCounts": {}})


@with_errors
def scrape_pools(request: QueryRequest, context: QueryContext) -> Reply:
    return data({"scrapePools": []})


@with_errors
def alertmanagers(request: QueryRequest, context: QueryContext) -> Reply:
    return data({"activeAlertmanagers": [], "droppedAlertmanagers": []})


@with_errors
def rules(request: QueryRequest, context: QueryContext) -> Reply:
    """Answers with the rules there are: none."""
    kind = text(parameters(request), "type")
    if kind not in ("", "alert", "record"):
        raise InvalidQuery(f'invalid parameter "type": not supported value "{kind}"')
    return data({"groups": []})


@with_errors
def alerts(request: QueryRequest, context: QueryContext) -> Reply:
    return data({"alerts": []})
