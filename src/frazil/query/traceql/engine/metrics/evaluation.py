"""Evaluates metrics queries over the spans of a source."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

import numpy as np

from frazil.query.traceql.engine.fields import (
    TRACE_COLUMNS,
    columns_of,
    fields_of,
    fields_of_pipeline,
    filters_of,
)
from frazil.query.traceql.engine.metrics import comparison
from frazil.query.traceql.engine.metrics.accumulators import Accumulator, accumulator
from frazil.query.traceql.engine.metrics.exemplars import ExemplarChoice
from frazil.query.traceql.engine.metrics.grid import Grid
from frazil.query.traceql.engine.metrics.second_stages import apply_stage, calculate
from frazil.query.traceql.engine.metrics.series import Series, in_order
from frazil.query.traceql.engine.pipelines import condition, run_pipeline
from frazil.query.traceql.engine.pushdown import predicate_of
from frazil.query.traceql.engine.search import MOST_IDS, candidates, read_traces
from frazil.query.traceql.engine.seeds import needs_traces, seed_of
from frazil.query.traceql.engine.source import Budget, SpanSource
from frazil.query.traceql.engine.spans import Spans
from frazil.query.traceql.engine.values import Ints
from frazil.query.traceql.parse.tree import (
    Coalesce,
    Field,
    Filter,
    GroupBy,
    Intrinsic,
    Metrics,
    MetricsFunction,
    MetricsOperation,
    MetricsQuery,
    Pipeline,
    SecondStages,
    Select,
    Static,
)


class Question(NamedTuple):
    """Says of which spans, in which steps, and with how many exemplars series are made."""

    source: SpanSource
    budget: Budget
    grid: Grid
    exemplars: int


def evaluate(metrics: Metrics, question: Question) -> list[Series]:
    """Returns the series in order. Those without a sample are left out."""
    found = _evaluate(metrics, question)
    assert isinstance(found, list)
    return in_order([each for each in found if not each.empty])


def _evaluate(node: Metrics | Static, question: Question) -> list[Series] | Static:
    match node:
        case Static():
            return node
        case MetricsQuery():
            return _series(node, question)
        case MetricsOperation():
            left, right = _evaluate(node.left, question), _evaluate(node.right, question)
            return calculate(node.operator, left, right)
        case SecondStages():
            series = _evaluate(node.metrics, question)
            assert isinstance(series, list)
            for stage in node.stages:
                series = apply_stage(stage, series)
            return series


def _series(node: MetricsQuery, question: Question) -> list[Series]:
    function = node.function
    fields = [*fields_of_pipeline(node.pipeline), *_fields_of_function(function)]
    gathered: Accumulator
    if function.name == "compare":
        fields += comparison.INTRINSICS
        gathered = comparison.Comparison(function, question.grid, question.budget.hold)
    else:
        choice = ExemplarChoice(question.exemplars, fields)
        gathered = accumulator(function, question.grid, choice, question.budget.hold)
    columns = ["trace_id", "timestamp", *columns_of(fields)]
    if function.name == "compare":
        columns += comparison.COLUMNS
    gather(node.pipeline, question, fields, columns, gathered)
    return gathered.series()


class Gatherer(Protocol):
    def add(self, spans: Spans, rows: Ints, steps: Ints) -> None:
        """Counts these rows of the spans, which start in these steps."""


def gather(
    pipeline: Pipeline, question: Question, fields: list[Field], columns: list[str], gathered: Gatherer
) -> None:
    """Hands over the spans that a pipeline finds in the steps of a question, with these fields and columns."""
    whole = _needs_whole_traces(pipeline, fields)
    found = _from_traces(pipeline, question, columns) if whole else _from_spans(pipeline, question, columns)
    for spans, rows in found:
        steps, inside = question.grid.steps_of(spans.starts[rows])
        gathered.add(spans, rows[inside], steps[inside])


def _fields_of_function(function: MetricsFunction) -> list[Field]:
    own = [] if function.field is None else [function.field]
    return [*own, *function.by, *(fields_of(function.filter.expression) if function.filter else ())]


def _needs_whole_traces(pipeline: Pipeline, fields: list[Field]) -> bool:
    """Tells whether spans can be counted one by one, without those that belong to the same trace."""
    alone = all(isinstance(stage, Filter | Select | GroupBy | Coalesce) for stage in pipeline.stages)
    return not alone or any(isinstance(field, Intrinsic) and needs_traces(field) for field in fields)


def _from_spans(pipeline: Pipeline, question: Question, columns: list[str]) -> Iterator[tuple[Spans, Ints]]:
    seed = seed_of(pipeline)
    grid = question.grid
    for batch in question.source.batches(
        grid.start_ns, grid.end_ns, predicate_of(seed), list(dict.fromkeys(columns))
    ):
        question.budget.check()
        spans = Spans(batch.spans)
        kept = np.ones(spans.count, bool)
        for each in filters_of(pipeline):
            kept &= condition(each.expression).test(spans)
        yield spans, np.flatnonzero(kept)


def _from_traces(pipeline: Pipeline, question: Question, columns: list[str]) -> Iterator[tuple[Spans, Ints]]:
    grid = question.grid
    times = (grid.start_ns, grid.end_ns)
    columns = list(dict.fromkeys([*TRACE_COLUMNS, *columns]))
    for ids, _ in candidates(pipeline, question.source, question.budget, *times, MOST_IDS):
        if ids:
            traces = read_traces(question.source, question.budget, ids, times, columns)
            yield traces, np.unique(run_pipeline(pipeline, traces).rows)
