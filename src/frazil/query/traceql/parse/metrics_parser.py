"""Parses what turns spans into series, and what may follow it."""

from __future__ import annotations

from typing import cast

from frazil.query.traceql.parse.constants import parse_constant
from frazil.query.traceql.parse.expressions import parse_field, parse_fields, parse_filter, parse_literal
from frazil.query.traceql.parse.names import COMPARISONS, SECOND_STAGES
from frazil.query.traceql.parse.operands import METRICS, Operand
from frazil.query.traceql.parse.token_stream import TokenStream
from frazil.query.traceql.parse.tokens import FLOAT, INTEGER
from frazil.query.traceql.parse.tree import (
    Filter,
    Limit,
    MetricsFunction,
    MetricsOperation,
    MetricsQuery,
    SecondStages,
    Static,
    Threshold,
)

_COUNTING = ("rate", "count_over_time")


def parse_metrics_function(tokens: TokenStream) -> MetricsFunction:
    name = tokens.take()
    tokens.expect("(")
    field, selection = None, None
    numbers: list[Static] = []
    if name.kind == "compare":
        selection, numbers = _comparison(tokens)
    elif name.kind not in _COUNTING:
        field = parse_field(tokens)
    if name.kind == "quantile_over_time":
        tokens.expect(",")
        numbers = [_literal(tokens, INTEGER, FLOAT)]
        while tokens.takes(","):
            numbers.append(_literal(tokens, INTEGER, FLOAT))
    tokens.expect(")")
    by = parse_fields(tokens) if name.kind != "compare" and tokens.takes("by") else ()
    return MetricsFunction(name.kind, field, tuple(numbers), selection, by, at=name.start)


def parse_second_stages(tokens: TokenStream, metrics: Operand) -> Operand:
    """Parses what cuts series down. It applies to all that stands before it."""
    stages: list[Limit | Threshold] = []
    while True:
        token = tokens.next
        if tokens.takes("|"):
            function = tokens.expect(*sorted(SECOND_STAGES, reverse=True))
            tokens.expect("(")
            limit = _literal(tokens, INTEGER)
            tokens.expect(")")
            stages.append(Limit(function.kind, cast(int, limit.value), at=function.start))
        elif tokens.takes(*COMPARISONS):
            stages.append(Threshold(token.kind, parse_constant(tokens), at=token.start))
        else:
            break
    if not stages:
        return metrics
    inner = cast(MetricsQuery | MetricsOperation | SecondStages, metrics.node)
    return Operand(METRICS, SecondStages(inner, tuple(stages), at=inner.at), metrics.start)


def _comparison(tokens: TokenStream) -> tuple[Filter, list[Static]]:
    selection = parse_filter(tokens)
    numbers: list[Static] = []
    if tokens.takes(","):
        numbers.append(_literal(tokens, INTEGER))
        if tokens.takes(","):
            numbers.append(_literal(tokens, INTEGER))
            tokens.expect(",")
            numbers.append(_literal(tokens, INTEGER))
    return selection, numbers


def _literal(tokens: TokenStream, *kinds: str) -> Static:
    literal = parse_literal(tokens.expect(*kinds))
    assert literal is not None
    return literal
