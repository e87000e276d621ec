"""Answers `query` and `query_range`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

import orjson

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.errors import QueryTimeout
from frazil.query.promql.api.envelope import INCOMPLETE, TRUNCATED, BadParameter, streamed, with_errors
from frazil.query.promql.api.parameters import (
    duration_ms,
    limit,
    optional_duration,
    optional_time,
    parameters,
    required_duration,
    required_time,
    text,
)
from frazil.query.promql.api.results import result
from frazil.query.promql.api.settings import options_of, samples_of
from frazil.query.promql.engine.query import Answer, query_instant, query_range
from frazil.query.promql.evaluation.options import EngineOptions
from frazil.query.promql.problems import InvalidQuery, ParseError
from frazil.web.parameters import Parameters

MAX_STEPS = 11_000


@with_errors
def instant(request: QueryRequest, context: QueryContext) -> Reply:
    given = parameters(request)
    most = limit(given)
    moment = optional_time(given, "time")
    if moment is None:
        moment = round(time.time() * 1000)
    check = _check(given, context)
    options = _options(given, context)
    source = samples_of(request, context)
    return _answered(
        given, most, False, lambda: query_instant(source, text(given, "query"), moment, options, check), context
    )


@with_errors
def ranged(request: QueryRequest, context: QueryContext) -> Reply:
    given = parameters(request)
    most = limit(given)
    start, end = required_time(given, "start"), required_time(given, "end")
    if end < start:
        raise BadParameter("end", "end timestamp must not be before start time")
    step = required_duration(given, "step")
    if step <= 0:
        raise BadParameter(
            "step", "zero or negative query resolution step widths are not accepted. Try a positive integer"
        )
    if (end - start) // step > MAX_STEPS:
        raise InvalidQuery(
            "exceeded maximum resolution of 11,000 points per timeseries. "
            "Try decreasing the query resolution (?step=XX)"
        )
    check = _check(given, context)
    options = _options(given, context)
    source = samples_of(request, context)
    return _answered(
        given,
        most,
        True,
        lambda: query_range(source, text(given, "query"), start, end, step, options, check),
        context,
    )


def _answered(
    given: Parameters, most: int, is_ranged: bool, ask: Callable[[], Answer], context: QueryContext
) -> Reply:
    began = time.perf_counter()
    try:
        answer = ask()
    except (ParseError, InvalidQuery) as error:
        raise BadParameter("query", error) from None
    seconds = time.perf_counter() - began
    pieces, cut = result(answer, is_ranged, most)
    warnings = [*answer.warnings, TRUNCATED] if cut else list(answer.warnings)
    context.check()
    if not context.statistics.complete:
        warnings.append(INCOMPLETE)
    stats = text(given, "stats")
    if stats and stats not in ("true", "all"):
        warnings.append(
            f'value "{stats}" for parameter "stats" is deprecated and will be rejected in the next major release, '
            f'use "true" or "all"'
        )
    context.statistics.rows_out += 0 if answer.matrix is None else answer.matrix.size * answer.matrix.steps
    end = b"}"
    if stats:
        end = b',"stats":' + orjson.dumps(_statistics(answer, seconds, context)) + b"}"
    return streamed(_closed(pieces, end), warnings, answer.infos)


def _closed(pieces: Iterator[bytes], end: bytes) -> Iterator[bytes]:
    yield from pieces
    yield end


def _statistics(answer: Answer, seconds: float, context: QueryContext) -> dict[str, dict[str, float]]:
    queued = context.statistics.queue_seconds
    return {
        "timings": {
            "evalTotalTime": seconds,
            "resultSortTime": 0.0,
            "queryPreparationTime": 0.0,
            "innerEvalTime": seconds,
            "execQueueTime": queued,
            "execTotalTime": seconds + queued,
        },
        "samples": {
            "totalQueryableSamples": answer.samples,
            "samplesRead": answer.samples,
            "peakSamples": answer.samples,
        },
    }


def _options(given: Parameters, context: QueryContext) -> EngineOptions:
    options = options_of(context)
    lookback = text(given, "lookback_delta")
    if not lookback:
        return options
    try:
        milliseconds = duration_ms(lookback)
    except ValueError as error:
        raise InvalidQuery(f"error parsing lookback delta duration: {error}") from None
    return replace(options, lookback_ms=milliseconds) if milliseconds > 0 else options


def _check(given: Parameters, context: QueryContext) -> Callable[[], None]:
    """Returns what stops the query: when the client has gone, and at the end of the time that it gave itself."""
    timeout = optional_duration(given, "timeout")
    if timeout is None:
        return context.check
    deadline = time.monotonic() + timeout / 1000

    def check() -> None:
        context.check()
        if time.monotonic() > deadline:
            raise QueryTimeout(f"The query took longer than {timeout / 1000:g} seconds (`timeout`). Ask for less.")

    return check
