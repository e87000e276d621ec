"""Answers `query_exemplars`."""

from __future__ import annotations

from typing import Any

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.query.promql.api.envelope import BadParameter, data, nothing, with_errors
from frazil.query.promql.api.number_texts import number_text
from frazil.query.promql.api.parameters import optional_time, parameters, text
from frazil.query.promql.api.settings import label_rules, options_of
from frazil.query.promql.parse import parse
from frazil.query.promql.parse.tree import VectorSelector, walk
from frazil.query.promql.storage.stored_exemplars import exemplars_of


@with_errors
def exemplars(request: QueryRequest, context: QueryContext) -> Reply:
    given = parameters(request)
    start, end = optional_time(given, "start"), optional_time(given, "end")
    if start is not None and end is not None and end < start:
        raise BadParameter("end", "end timestamp must not be before start timestamp")
    tree = parse(text(given, "query"), options_of(context).parser)
    selectors = [node for node in walk(tree) if isinstance(node, VectorSelector)]
    if not selectors:
        return nothing()
    rules = label_rules(request, context)
    found: dict[tuple[tuple[str, str], ...], dict[tuple[Any, ...], dict[str, Any]]] = {}
    for selector in selectors:
        for each in exemplars_of(context, request.tenants, rules, selector.all_matchers, start, end):
            labels = tuple(sorted(each.labels.items()))
            seconds = each.time_ms / 1000
            shown = {"labels": dict(labels), "value": number_text(each.value), "timestamp": seconds}
            series = tuple(sorted(each.series.items()))
            found.setdefault(series, {})[each.time_ms, labels, each.value] = shown
    return data(
        [
            {"seriesLabels": dict(series), "exemplars": [shown[key] for key in sorted(shown)]}
            for series, shown in sorted(found.items())
        ]
    )
