"""Answers queries of LogQL over any source of log lines."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from frazil.errors import QueryError
from frazil.query.logql.blocks import LogSource
from frazil.query.logql.guards import Guard, Limits, Unbounded
from frazil.query.logql.log_results import Entry, LogRequest, log_entries
from frazil.query.logql.metrics.evaluation import Evaluation
from frazil.query.logql.metrics.matrix import Matrix, Steps, merged
from frazil.query.logql.metrics.vector_aggregations import sorted_by_value
from frazil.query.logql.parse.log_tree import LogQuery
from frazil.query.logql.parse.metric_tree import MetricQuery, NumberLiteral, VectorAggregation
from frazil.query.logql.parse.parser import parse

NO_INSTANT = "log queries are not supported as an instant query type, please change your query to a range query type"


@dataclass(frozen=True)
class Streams:
    """Is the answer to a log query."""

    entries: list[Entry]


@dataclass(frozen=True)
class InstantVector:
    """Is the answer to an instant metric query. `ordered` says that the order of the series is one by value."""

    matrix: Matrix
    time_ns: int
    ordered: bool


@dataclass(frozen=True)
class Scalar:
    value: float
    time_ns: int


@dataclass(frozen=True)
class RangeMatrix:
    matrix: Matrix
    steps: Steps


@dataclass(frozen=True)
class Engine:
    source: LogSource
    guard: Guard = field(default_factory=Unbounded)
    limits: Limits = field(default_factory=Limits)

    def instant(self, text: str, time_ns: int) -> InstantVector | Scalar:
        query = parse(text)
        if isinstance(query, LogQuery):
            raise QueryError(NO_INSTANT)
        if isinstance(query, NumberLiteral):
            return Scalar(query.value, time_ns)
        steps = np.array([time_ns], np.int64)
        matrix = self._matrix(query, steps, instant=True)
        order = query.operation if isinstance(query, VectorAggregation) else ""
        if order in ("sort", "sort_desc"):
            return InstantVector(sorted_by_value(matrix, descending=order == "sort_desc"), time_ns, ordered=True)
        return InstantVector(matrix, time_ns, ordered=False)

    def range(self, text: str, start_ns: int, end_ns: int, step_ns: int) -> RangeMatrix:
        """Evaluates a metric query at `start_ns` and each step after it, up to `end_ns`."""
        query = parse(text)
        if isinstance(query, LogQuery):
            raise QueryError("the query gives lines and not samples")
        if step_ns <= 0:
            raise QueryError("zero or negative query resolution step widths are not accepted. Try a positive integer")
        if end_ns < start_ns:
            raise QueryError("end timestamp must not be before or equal to start time")
        if (end_ns - start_ns) // step_ns > self.limits.max_points:
            raise QueryError(
                f"exceeded maximum resolution of {self.limits.max_points:,} points per time series. Try increasing "
                "the value of the step parameter"
            )
        steps = np.arange(start_ns, end_ns + 1, step_ns, dtype=np.int64)
        return RangeMatrix(self._matrix(query, steps, instant=False), steps)

    def logs(
        self,
        text: str,
        start_ns: int,
        end_ns: int,
        limit: int,
        *,
        newest_first: bool = True,
        interval_ns: int = 0,
    ) -> Streams:
        query = parse(text)
        if not isinstance(query, LogQuery):
            raise QueryError("the query gives samples and not lines")
        request = LogRequest(query, start_ns, end_ns, limit, newest_first, interval_ns)
        return Streams(list(log_entries(request, self.source, self.guard)))

    def _matrix(self, query: MetricQuery, steps: Steps, *, instant: bool) -> Matrix:
        matrix = merged(Evaluation(self.source, steps, self.guard, instant).matrix(query).without_empty())
        most = self.limits.max_query_series
        if most and len(matrix.series) > most:
            raise QueryError(
                f"maximum number of series ({most}) reached for a single query; consider reducing query cardinality "
                "by adding more specific stream selectors, reducing the time range, or aggregating results with "
                "functions like sum(), count() or topk()"
            )
        return matrix


def aligned(start_ns: int, end_ns: int, step_ns: int) -> tuple[int, int]:
    """Returns start and end of a range as multiples of the step, the start earlier and the end later."""
    return start_ns // step_ns * step_ns, -(-end_ns // step_ns) * step_ns
