"""Answers `/api/metrics/query_range` and `/api/metrics/query`."""

from __future__ import annotations

from typing import Any

import numpy as np

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.query.traceql.api.parameters import Parameters, check_steps
from frazil.query.traceql.api.replies import RequestRefused, json_reply, number, refusing
from frazil.query.traceql.api.sources import search_metrics, spans_of
from frazil.query.traceql.api.values_json import Json, pair_json
from frazil.query.traceql.engine.metrics.evaluation import Question, evaluate
from frazil.query.traceql.engine.metrics.grid import Grid
from frazil.query.traceql.engine.metrics.series import Labels, Series
from frazil.query.traceql.errors import TraceQLError, TraceQLSyntaxError
from frazil.query.traceql.parse.names import Type
from frazil.query.traceql.parse.parser import parse
from frazil.query.traceql.parse.tree import Metrics, Pipeline, Query, ScalarFilter
from frazil.query.traceql.validate.check import validate

MOST_STEPS = 10_000
MOST_NS = 24 * 3600 * 10**9
MOST_EXEMPLARS = 100


@refusing()
def query_range(request: QueryRequest, context: QueryContext) -> Reply:
    return json_reply(range_answer(request, context))


@refusing()
def query_instant(request: QueryRequest, context: QueryContext) -> Reply:
    return json_reply(instant_answer(request, context))


def range_answer(request: QueryRequest, context: QueryContext) -> Json:
    parameters = Parameters(request)
    start, end = parameters.metrics_range()
    step = parameters.step_ns(start, end)
    if start > end:
        raise RequestRefused("end must be greater than start")
    check_range(start, end)
    check_steps(start, end, step, MOST_STEPS)
    query, metrics = _read(parameters, syntax_prefix="")
    grid = Grid.over(start, end, step)
    source = spans_of(request, context)
    series = evaluate(metrics, Question(source, context, grid, _exemplars(parameters, query)))
    series, cut = _cut(series, parameters)
    ends = [str(each) for each in grid.ends_ms()]
    answer = {"series": [_range_series(each, ends) for each in series], "metrics": search_metrics(source)}
    return answer | cut


def instant_answer(request: QueryRequest, context: QueryContext) -> Json:
    parameters = Parameters(request)
    start, end = parameters.metrics_range()
    if start >= end:
        raise RequestRefused("end must be greater than start")
    check_range(start, end)
    _, metrics = _read(parameters, syntax_prefix="compiling query: ")
    source = spans_of(request, context)
    series = evaluate(metrics, Question(source, context, Grid.instant(start, end), 0))
    series, cut = _cut(series, parameters)
    answer = {"series": [_instant_series(each) for each in series], "metrics": search_metrics(source)}
    return answer | cut


def _read(parameters: Parameters, syntax_prefix: str) -> tuple[Query, Metrics]:
    try:
        query = parse(parameters.text("q") or parameters.text("query"))
        validate(query)
    except TraceQLError as error:
        prefix = syntax_prefix if isinstance(error, TraceQLSyntaxError) else "compiling query: "
        raise RequestRefused(prefix + str(error)) from error
    if isinstance(query.body, Pipeline | ScalarFilter):
        raise RequestRefused(syntax_prefix + "not a metrics query")
    return query, query.body


def check_range(start: int, end: int) -> None:
    if end - start > MOST_NS:
        raise RequestRefused("metrics query time range exceeds the maximum allowed duration of 24h0m0s")


def _exemplars(parameters: Parameters, query: Query) -> int:
    """Returns how many exemplars are wanted. A hint counts more than the parameter."""
    if query.hint("exemplars", Type.BOOLEAN) is False:
        return 0
    hint = query.hint("exemplars", Type.INT)
    wanted = hint if isinstance(hint, int) else parameters.lenient_count("exemplars")
    return min(wanted, MOST_EXEMPLARS) if wanted > 0 else MOST_EXEMPLARS


def _cut(series: list[Series], parameters: Parameters) -> tuple[list[Series], Json]:
    most = parameters.lenient_count("maxSeries")
    if not most or len(series) <= most:
        return series, {}
    message = (
        f"Response exceeds maximum series limit of {most}, a partial response is returned. "
        "Warning: the accuracy of each individual value is not guaranteed."
    )
    return series[:most], {"status": "PARTIAL", "message": message}


def _range_series(series: Series, ends: list[str]) -> Json:
    samples: list[Any] = []
    for place in np.flatnonzero(~np.isnan(series.samples)).tolist():
        value = series.samples[place].item()
        samples.append({"timestampMs": ends[place]} | _value(value))
    found: Json = {"labels": _labels(series.labels), "samples": samples}
    exemplars = [
        {"labels": _labels(each.labels)} | _value(each.value) | {"timestampMs": str(each.time_ms)}
        for each in series.exemplars
    ]
    return found | ({"exemplars": exemplars} if exemplars else {})


def _instant_series(series: Series) -> Json:
    return {"labels": _labels(series.labels)} | _value(series.samples[0].item())


def _labels(labels: Labels) -> list[Json]:
    return [pair_json(label.key, label.value) for label in labels]


def _value(value: float) -> Json:
    """A value of zero is left out, as protobuf's JSON does."""
    return {"value": number(value)} if value else {}
