"""Answers `query` and `query_range`."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import replace

import orjson

from frazil.config.sections.loki import LokiQueryConfig
from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.errors import QueryError
from frazil.query.logql.api import rendering
from frazil.query.logql.api.parameters import (
    SECOND_NS,
    Span,
    checked_span,
    instant_of,
    interval_of,
    is_newest_first,
    limit_of,
    parameters_of,
    step_of,
)
from frazil.query.logql.api.replies import INCOMPLETE, json_reply
from frazil.query.logql.api.statistics import loki_statistics
from frazil.query.logql.api.tenants import settings_of, source_of
from frazil.query.logql.engine import Engine, InstantVector, Scalar, aligned
from frazil.query.logql.go_numbers import format_go_duration
from frazil.query.logql.guards import Limits
from frazil.query.logql.metrics.matrix import Matrix
from frazil.query.logql.parse.log_tree import LogQuery
from frazil.query.logql.parse.metric_tree import (
    BinaryOperation,
    LabelReplace,
    MetricQuery,
    RangeAggregation,
    VectorAggregation,
)
from frazil.query.logql.parse.parser import parse

ENCODING_FLAGS = "x-loki-response-encoding-flags"
CATEGORIZE = "categorize-labels"
_DRILLDOWN = re.compile(r"(?:^|[,&])\s*source=grafana-lokiexplore-app(?:$|[,&\s])", re.IGNORECASE)
_HOUR_NS = 3600 * SECOND_NS


def query(request: QueryRequest, context: QueryContext) -> Reply:
    """Evaluates a metric query at one moment."""
    started = time.monotonic()
    parameters = parameters_of(request)
    text, at = parameters.one("query") or "", instant_of(parameters)
    limit_of(parameters)
    is_newest_first(parameters)
    asked = _Asked(request, context, started)
    result = asked.engine.instant(text, at)
    if isinstance(result, Scalar):
        return asked.reply("scalar", iter([rendering.scalar(result)]), 1)
    matrix, _ = asked.whole_or_part(result.matrix)
    result = InstantVector(matrix, result.time_ns, result.ordered)
    return asked.reply("vector", iter([rendering.vector(result)]), len(matrix.series))


def query_range(request: QueryRequest, context: QueryContext) -> Reply:
    """Answers with lines, or evaluates a metric query at each step."""
    started = time.monotonic()
    parameters = parameters_of(request)
    span = checked_span(parameters)
    limit, newest_first = limit_of(parameters), is_newest_first(parameters)
    step, interval = step_of(parameters, span), interval_of(parameters)
    text = parameters.one("query") or ""
    tree = parse(text)
    asked = _Asked(request, context, started)
    check_length(span, tree, asked.settings)
    if isinstance(tree, LogQuery):
        check_entries(limit, asked.settings.max_entries)
        found = asked.engine.logs(
            text, span.start_ns, span.end_ns, limit, newest_first=newest_first, interval_ns=interval
        ).entries
        context.statistics.rows_out += len(found)
        flags = encoding_flags(request)
        body = rendering.streams(found, categorized=CATEGORIZE in flags)
        return asked.reply("streams", body, len(found), flags=flags)
    start, end = aligned(span.start_ns, span.end_ns, step)
    result = asked.engine.range(text, start, end, step)
    matrix, warnings = asked.whole_or_part(result.matrix)
    context.statistics.rows_out += int(matrix.present.sum())
    body = rendering.matrix(replace(result, matrix=matrix), context.check)
    return asked.reply("matrix", body, len(matrix.series), warnings=warnings)


class _Asked:
    """Is a query that is being answered."""

    def __init__(self, request: QueryRequest, context: QueryContext, started: float) -> None:
        self._context = context
        self._started = started
        self._partly = bool(_DRILLDOWN.search(request.headers.get("x-query-tags", "")))
        """Whether too many series are cut, as Logs Drilldown expects it."""
        self.settings = settings_of(context.config, request.tenants)
        most = 0 if self._partly else self.settings.max_series
        self._source = source_of(request, context)
        self.engine = Engine(self._source, context, Limits(most))

    def whole_or_part(self, matrix: Matrix) -> tuple[Matrix, list[str]]:
        most = self.settings.max_series
        if not self._partly or not most or len(matrix.series) <= most:
            return matrix, []
        told = f"maximum number of series ({most}) reached for a single query; returning partial results"
        return matrix.rows(range(most)), [told]

    def reply(
        self,
        kind: str,
        result: Iterator[bytes],
        returned: int,
        *,
        flags: tuple[str, ...] = (),
        warnings: list[str] | None = None,
    ) -> Reply:
        complete = self._source.is_complete
        warned = [*(warnings or ()), *(() if complete else (INCOMPLETE,))]

        def body() -> Iterator[bytes]:
            told = b'"warnings":%b,' % orjson.dumps(warned) if warned else b""
            encoding = b'"encodingFlags":%b,' % orjson.dumps(flags) if flags else b""
            head = b'{"status":"success",%b"data":{"resultType":"%b",%b"result":'
            yield head % (told, kind.encode(), encoding)
            yield from result
            self._context.check()
            seconds = time.monotonic() - self._started
            yield b',"stats":%b}}' % loki_statistics(self._context.statistics, seconds, returned)

        return json_reply(body(), complete=complete)


def encoding_flags(request: QueryRequest) -> tuple[str, ...]:
    given = request.headers.get(ENCODING_FLAGS, "")
    return tuple(flag for flag in map(str.strip, given.split(",")) if flag)


def check_entries(limit: int, most: int) -> None:
    if most and limit > most:
        raise QueryError(
            f"max entries limit per query exceeded, limit > max_entries_limit_per_query ({limit} > {most})"
        )


def check_length(span: Span, tree: LogQuery | MetricQuery | None, settings: LokiQueryConfig) -> None:
    """Raises `QueryError` if a query over this span looks at more time than it may."""
    most = settings.max_range_hours * _HOUR_NS
    window = 0 if tree is None or isinstance(tree, LogQuery) else _longest_range_ns(tree)
    length = span.end_ns - span.start_ns + window
    if most and length > most:
        raise QueryError(
            f"the query time range exceeds the limit (query length: {format_go_duration(length)}, "
            f"limit: {hours_text(settings.max_range_hours)})"
        )


def _longest_range_ns(tree: MetricQuery) -> int:
    match tree:
        case RangeAggregation():
            return tree.range.interval_ns
        case VectorAggregation() | LabelReplace():
            return _longest_range_ns(tree.expression)
        case BinaryOperation():
            return max(_longest_range_ns(tree.left), _longest_range_ns(tree.right))
    return 0


def hours_text(hours: int) -> str:
    days, rest = divmod(hours, 24)
    return "".join(f"{count}{unit}" for count, unit in ((days, "d"), (rest, "h")) if count)
