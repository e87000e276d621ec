"""Checks the metrics of a query."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from frazil.query.traceql.errors import TraceQLInvalid, TraceQLUnsupported
from frazil.query.traceql.parse.names import Type
from frazil.query.traceql.parse.tree import (
    Expression,
    Limit,
    Metrics,
    MetricsFunction,
    MetricsOperation,
    MetricsQuery,
    Pipeline,
    SecondStages,
    Static,
)
from frazil.query.traceql.parse.type_rules import type_of

_MOST_GROUPS = 5
_WITH_LABELS_OF_THEIR_OWN = frozenset({"quantile_over_time", "histogram_over_time"})


def check_metrics(
    node: Metrics | Static, check_pipeline: Callable[[Pipeline], None], check_field: Callable[[Expression], None]
) -> None:
    match node:
        case MetricsQuery():
            check_pipeline(node.pipeline)
            _check_function(node.function, check_field)
        case MetricsOperation():
            check_metrics(node.left, check_pipeline, check_field)
            check_metrics(node.right, check_pipeline, check_field)
            if _compares(node.left) or _compares(node.right):
                raise TraceQLInvalid("`compare()` cannot be used in arithmetic between metrics")
        case SecondStages():
            check_metrics(node.metrics, check_pipeline, check_field)
            if _compares(node.metrics):
                raise TraceQLInvalid("`compare()` cannot be used with second stage functions")
            for stage in node.stages:
                if isinstance(stage, Limit) and stage.limit < 1:
                    raise TraceQLInvalid("limit must be greater than 0")


def _check_function(function: MetricsFunction, check_field: Callable[[Expression], None]) -> None:
    for each in function.by if function.field is None else (function.field, *function.by):
        check_field(each)
    most = _MOST_GROUPS - (function.name in _WITH_LABELS_OF_THEIR_OWN)
    if len(function.by) > most:
        raise TraceQLUnsupported(f"metrics group by {len(function.by)} values")
    if function.name == "quantile_over_time":
        for number in function.numbers:
            if not 0 <= cast(float, number.value) <= 1:
                raise TraceQLInvalid(f"quantile must be between 0 and 1: {number}")
    if function.filter is not None:
        check_field(function.filter.expression)
        if type_of(function.filter.expression) not in (Type.BOOLEAN, Type.ATTRIBUTE):
            raise TraceQLInvalid(f"span filter field expressions must resolve to a boolean: {function.filter}")
        _check_numbers([cast(int, number.value) for number in function.numbers])


def _check_numbers(numbers: list[int]) -> None:
    """Checks the numbers of `compare`: how many values, from when, until when."""
    if numbers and numbers[0] <= 0:
        raise TraceQLInvalid("compare() top number of values must be integer greater than 0")
    if len(numbers) == 3:
        start, end = numbers[1:]
        if start <= 0 or end <= 0:
            raise TraceQLInvalid("compare() timestamps must be positive integer unix nanoseconds")
        if end <= start:
            raise TraceQLInvalid("compare() end timestamp must be greater than start timestamp")


def _compares(node: Metrics | Static) -> bool:
    match node:
        case MetricsQuery():
            return node.function.name == "compare"
        case SecondStages():
            return _compares(node.metrics)
        case MetricsOperation():
            return _compares(node.left) or _compares(node.right)
    return False
