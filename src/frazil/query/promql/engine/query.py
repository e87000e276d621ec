"""Answers whole queries: at one moment, or over a range of steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from frazil.ops.short_texts import remember_short
from frazil.query.promql.engine.evaluator import Evaluator
from frazil.query.promql.engine.raw import RangeVector, range_vector
from frazil.query.promql.engine.statistics import stats_only_selectors
from frazil.query.promql.evaluation.annotations import Annotations
from frazil.query.promql.evaluation.context import Evaluation, Floats, Steps
from frazil.query.promql.evaluation.matrix import Matrix, finish_names, merge_same
from frazil.query.promql.evaluation.options import EngineOptions
from frazil.query.promql.parse import ParserOptions, parse
from frazil.query.promql.parse.tree import Node, StringLiteral, unwrap
from frazil.query.promql.problems import InvalidQuery
from frazil.query.promql.series.source import SampleSource, Times
from frazil.query.promql.types import ValueType


@dataclass(frozen=True)
class Answer:
    """Is what a query gives. One of the values is there, as the type says."""

    type: ValueType
    times: Times
    """The steps, in milliseconds."""
    matrix: Matrix | None = None
    """Of an instant vector at one step, or of any query over a range of steps."""
    ranges: RangeVector | None = None
    """Of a range vector at one moment."""
    scalar: Floats | None = None
    text: str | None = None
    warnings: list[str] = field(default_factory=list)
    infos: list[str] = field(default_factory=list)
    samples: int = 0


@remember_short(512)
def parsed(query: str, options: ParserOptions) -> Node:
    """Returns the tree of a query; dashboards ask the same ones again and again. Nothing changes a tree."""
    return parse(query, options)


def never() -> None:
    """Checks nothing: the query may go on."""


def query_instant(
    source: SampleSource,
    query: str,
    time_ms: int,
    options: EngineOptions | None = None,
    check: Callable[[], None] = never,
) -> Answer:
    """Answers a query at one moment."""
    options = options or EngineOptions()
    node = parsed(query, options.parser)
    return _answer(source, query, node, Steps(time_ms, time_ms, 0), options, check, ranged=False)


def query_range(
    source: SampleSource,
    query: str,
    start_ms: int,
    end_ms: int,
    step_ms: int,
    options: EngineOptions | None = None,
    check: Callable[[], None] = never,
) -> Answer:
    """Answers a query at every step of a range."""
    options = options or EngineOptions()
    node = parsed(query, options.parser)
    if node.type not in (ValueType.SCALAR, ValueType.VECTOR):
        raise InvalidQuery(
            f'invalid expression type "{node.type.value}" for range query, must be Scalar or instant Vector'
        )
    if step_ms <= 0:
        raise InvalidQuery("zero or negative query resolution step widths are not accepted")
    if end_ms < start_ms:
        raise InvalidQuery("end timestamp must not be before start time")
    if (end_ms - start_ms) // step_ms >= options.max_steps:
        raise InvalidQuery("exceeded maximum resolution of 11,000 points per timeseries")
    return _answer(source, query, node, Steps(start_ms, end_ms, step_ms), options, check, ranged=True)


def _answer(
    source: SampleSource,
    query: str,
    node: Node,
    steps: Steps,
    options: EngineOptions,
    check: Callable[[], None],
    ranged: bool,
) -> Answer:
    annotations = Annotations(query)
    evaluation = Evaluation(source, options, annotations, steps, check, stats_only_selectors(node))
    evaluator = Evaluator(evaluation)
    if isinstance(unwrap(node), StringLiteral):
        text = evaluator.text(node, steps)
        return Answer(ValueType.STRING, steps.times, text=text)
    if node.type == ValueType.MATRIX:
        ranges = range_vector(evaluator, unwrap(node), steps)
        return Answer(
            ValueType.MATRIX,
            steps.times,
            ranges=ranges,
            warnings=annotations.warnings,
            infos=annotations.infos,
            samples=evaluation.samples,
        )
    value = evaluator.evaluate(node, steps)
    matrix, scalar = (value, None) if isinstance(value, Matrix) else (None, value)
    assert not isinstance(scalar, str)
    if matrix is not None:
        matrix = finish_names(matrix) if options.delayed_names else merge_same(matrix)
        if ranged:
            matrix = matrix.take(np.asarray(matrix.labels.order()))
    return Answer(
        node.type,
        steps.times,
        matrix=matrix,
        scalar=scalar,
        warnings=annotations.warnings,
        infos=annotations.infos,
        samples=evaluation.samples,
    )
