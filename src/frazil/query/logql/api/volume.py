"""Answers how much there is: `index/stats`, `index/volume` and `index/volume_range`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import orjson

from frazil.engine.interface import QueryContext, QueryRequest, Reply
from frazil.errors import QueryError
from frazil.query.logql.api.parameters import (
    Span,
    checked_span,
    limit_of,
    parameters_of,
    step_of,
)
from frazil.query.logql.api.queries import check_length
from frazil.query.logql.api.rendering import sample, seconds_text
from frazil.query.logql.api.replies import INCOMPLETE, json_reply, object_reply
from frazil.query.logql.api.selectors import Matchers, matchers_of
from frazil.query.logql.api.statistics import loki_statistics
from frazil.query.logql.api.stream_survey import Counts, Survey
from frazil.query.logql.api.tenants import settings_of, source_of
from frazil.query.logql.metrics.matrix import SeriesLabels
from frazil.web.parameters import Parameters

_MILLISECOND_NS = 1_000_000
Volumes = dict[SeriesLabels, int]


def stats(request: QueryRequest, context: QueryContext) -> Reply:
    asked = _Asked.of(request, context)
    found = asked.survey.counts(asked.span, [asked.matchers])
    lines = sum(each for each, _ in found.values())
    nbytes = sum(each for _, each in found.values())
    # There are no chunks. Clients show the number, and each stream has at least one.
    answer = {"streams": len(found), "chunks": len(found), "bytes": nbytes, "entries": lines}
    return object_reply(answer, complete=asked.survey.source.is_complete)


def volume(request: QueryRequest, context: QueryContext) -> Reply:
    started = time.monotonic()
    asked = _Asked.of(request, context)
    volumes = asked.volumes()
    at = seconds_text(asked.span.end_ns)
    samples = b",".join(sample(dict(labels), at, str(volumes[labels])) for labels in asked.largest(volumes))
    return _reply(asked, started, "vector", b"[%b]" % samples, len(volumes))


def volume_range(request: QueryRequest, context: QueryContext) -> Reply:
    started = time.monotonic()
    asked = _Asked.of(request, context)
    step = step_of(asked.parameters, asked.span)
    edges = _edges(asked.span, step)
    ends = [at if at == asked.span.end_ns else at - _MILLISECOND_NS for at in edges[1:].tolist()]
    times = [seconds_text(at) for at in ends]
    points = asked.points(edges)
    chosen = asked.largest({labels: int(nbytes.sum()) for labels, nbytes in points.items()})
    series = (
        b'{"metric":%b,"values":[%b]}' % (orjson.dumps(dict(labels)), _points(times, points[labels]))
        for labels in chosen
    )
    return _reply(asked, started, "matrix", b"[%b]" % b",".join(series), len(chosen))


def _edges(span: Span, step_ns: int) -> Counts:
    """Returns start and end of the span, and the multiples of the step between them."""
    first = (span.start_ns // step_ns + 1) * step_ns
    inner = np.arange(first, span.end_ns, step_ns, dtype=np.int64)
    return np.concatenate([[span.start_ns], inner, [span.end_ns]])


def _points(times: list[str], nbytes: Counts) -> bytes:
    there = np.flatnonzero(nbytes).tolist()
    return ",".join(f'[{times[at]},"{nbytes[at]}"]' for at in there).encode()


def _reply(asked: _Asked, started: float, kind: str, result: bytes, returned: int) -> Reply:
    context = asked.survey.context
    context.check()
    stats = loki_statistics(context.statistics, time.monotonic() - started, returned)
    complete = asked.survey.source.is_complete
    told = b"" if complete else b'"warnings":%b,' % orjson.dumps([INCOMPLETE])
    body = b'{"status":"success",%b"data":{"resultType":"%b","result":%b,"stats":%b}}'
    return json_reply([body % (told, kind.encode(), result, stats)], complete=complete)


@dataclass(frozen=True)
class _Asked:
    parameters: Parameters
    span: Span
    matchers: Matchers
    survey: Survey
    most_series: int

    @classmethod
    def of(cls, request: QueryRequest, context: QueryContext) -> _Asked:
        parameters = parameters_of(request)
        settings = settings_of(context.config, request.tenants)
        span = checked_span(parameters)
        check_length(span, None, settings)
        survey = Survey(source_of(request, context), context, sizes=True)
        return cls(parameters, span, matchers_of(parameters.one("query")), survey, settings.max_volume_series)

    def volumes(self) -> Volumes:
        """Returns the bytes of lines by the labels that are asked for."""
        counts = self.survey.counts(self.span, [self.matchers])
        found: Volumes = {}
        for labels, (_, nbytes) in counts.items():
            for key in self._keys(labels):
                found[key] = found.get(key, 0) + nbytes
        return found

    def points(self, edges: Counts) -> dict[SeriesLabels, Counts]:
        """Returns the same between every two edges."""
        found: dict[SeriesLabels, Counts] = {}
        for labels, nbytes in self.survey.bytes_at(self.span, self.matchers, edges).items():
            for key in self._keys(labels):
                found[key] = found[key] + nbytes if key in found else nbytes
        return found

    def _keys(self, labels: SeriesLabels) -> list[SeriesLabels]:
        targets = self._targets
        own = tuple(each for each in labels if targets is None or each[0] in targets)
        return [((name, ""),) for name, _ in own] if self._by_label else [own]

    def largest(self, volumes: Volumes) -> list[SeriesLabels]:
        limit = limit_of(self.parameters)
        if limit > self.most_series and len(volumes) > self.most_series:
            raise QueryError(f"the query hit the max number of series limit (limit: {self.most_series} series)")
        return sorted(volumes, key=lambda labels: (-volumes[labels], labels))[:limit]

    @cached_property
    def _targets(self) -> frozenset[str] | None:
        """Returns the labels to group by; None stands for all."""
        given = self.parameters.one("targetLabels")
        if given:
            return frozenset(filter(None, map(str.strip, given.split(","))))
        names = frozenset(matcher.name for matcher in self.matchers)
        return None if not names or self._by_label else names

    @cached_property
    def _by_label(self) -> bool:
        given = self.parameters.one("aggregateBy") or "series"
        if given not in ("series", "labels"):
            raise QueryError("invalid aggregation option")
        return given == "labels"
