"""Summarises groups of server spans: how many there are, how many failed, and how long they took."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from frazil.query.traceql.engine.columns import integers, whole_column
from frazil.query.traceql.engine.fields import columns_of, fields_of_pipeline
from frazil.query.traceql.engine.metrics.evaluation import Question, gather
from frazil.query.traceql.engine.metrics.groups import Grid2D, Groups
from frazil.query.traceql.engine.metrics.histograms import bucket_numbers, quantile
from frazil.query.traceql.engine.spans import Spans
from frazil.query.traceql.engine.values import Ints
from frazil.query.traceql.parse.names import KINDS, STATUSES
from frazil.query.traceql.parse.tree import Field, Intrinsic, Pipeline, Static

QUANTILES = {"p99": 0.99, "p95": 0.95, "p90": 0.9, "p50": 0.5}
_KIND, _STATUS, _DURATION = Intrinsic("kind"), Intrinsic("status"), Intrinsic("duration")
_SERVER, _ERROR = KINDS.index("server"), STATUSES.index("error")
_BUCKETS = 64


class Summary(NamedTuple):
    values: tuple[Static, ...]
    """The values of the fields by which the spans are grouped."""
    spans: int
    errors: int
    quantiles: dict[str, int]
    """Durations in nanoseconds, by name."""


def summarise(pipeline: Pipeline, by: Sequence[Field], question: Question) -> list[Summary]:
    """Returns the groups of the spans that a pipeline finds, those with most spans first."""
    fields = [*fields_of_pipeline(pipeline), *by, _KIND, _STATUS, _DURATION]
    found = _Summaries(by, question.budget.hold)
    gather(pipeline, question, fields, ["trace_id", "timestamp", *columns_of(fields)], found)
    return found.summaries()


class _Summaries:
    """Counts the spans of each group by the power of two that their durations reach."""

    def __init__(self, by: Sequence[Field], hold: Callable[[int], None]) -> None:
        self._groups = Groups(by)
        self._hold = hold
        self._counts, self._errors = Grid2D(_BUCKETS, 0), Grid2D(1, 0)

    def add(self, spans: Spans, rows: Ints, steps: Ints) -> None:
        rows = rows[integers(whole_column(spans.table, "kind"), 0)[rows] == _SERVER]
        groups = self._groups.numbers(spans, rows)
        self._hold(self._counts.grow(self._groups.count) + self._errors.grow(self._groups.count))
        buckets = bucket_numbers(np.maximum(spans.durations[rows], 1), np.zeros(len(rows), bool))
        np.add.at(self._counts.flat, groups * _BUCKETS + buckets, 1)
        failed = integers(whole_column(spans.table, "status_code"), 0)[rows] == _ERROR
        np.add.at(self._errors.flat, groups[failed], 1)

    def summaries(self) -> list[Summary]:
        found = [self._summary(number, values) for number, values in enumerate(self._groups.combinations())]
        return sorted(found, key=lambda each: (-each.spans, [str(value) for value in each.values]))

    def _summary(self, number: int, values: tuple[Static, ...]) -> Summary:
        counts = self._counts.row(number)
        filled = np.flatnonzero(counts)
        quantiles = {
            name: int(quantile(wanted, np.exp2(filled), counts[filled, None])[0])
            for name, wanted in QUANTILES.items()
        }
        return Summary(values, int(counts.sum()), int(self._errors.row(number)[0]), quantiles)
