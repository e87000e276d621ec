"""Parses whole queries: operators with their precedence, aggregations and ranges."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from frazil.errors import QueryError
from frazil.ops.short_texts import remember_short
from frazil.query.logql.arithmetic import operate
from frazil.query.logql.parse.checks import (
    check_aggregation,
    check_leg,
    check_range_aggregation,
    check_replacement,
    check_selectors,
    check_stage,
)
from frazil.query.logql.parse.label_conditions import float_of, parse_condition, signed_number
from frazil.query.logql.parse.lexer import tokens_of
from frazil.query.logql.parse.log_parser import (
    LABEL_FILTER_STARTS,
    parse_log_query,
    parse_selector,
    parse_stages,
)
from frazil.query.logql.parse.log_tree import LabelFilter, LogQuery
from frazil.query.logql.parse.metric_tree import (
    SET_OPERATORS,
    BinaryOperation,
    Grouping,
    LabelReplace,
    LogRange,
    MetricQuery,
    NumberLiteral,
    Query,
    RangeAggregation,
    Unwrap,
    Vector,
    VectorAggregation,
    VectorMatching,
)
from frazil.query.logql.parse.token_stream import TokenStream
from frazil.query.logql.parse.tokens import (
    CONVERSIONS,
    DURATION,
    END,
    IDENTIFIER,
    NUMBER,
    RANGE,
    RANGE_OPERATIONS,
    VECTOR_OPERATIONS,
    error,
)

_STRENGTH = {
    operator: strength
    for strength, operators in enumerate(
        (("or",), ("and", "unless"), ("==", "!=", "<", "<=", ">", ">="), ("+", "-"), ("*", "/", "%"), ("^",)), 1
    )
    for operator in operators
}
_RIGHT_ASSOCIATIVE = "^"
_CONVERSION_NAMES = ("BYTES_CONV", "DURATION_CONV", "DURATION_SECONDS_CONV")
"""Messages have these for what may stand before the label of an `unwrap`."""


@remember_short(1024)
def parse(text: str) -> Query:
    """Returns the tree of the query, else raises `QueryError` with the place of the first mistake."""
    tokens = TokenStream(tokens_of(text))
    try:
        query = _expression(tokens, 0)
        if tokens.next.kind != END:
            raise tokens.unexpected()
        check_selectors(query)
    except QueryError as wrong:
        if wrong.line is None:
            wrong.line, wrong.column = tokens.next.line, tokens.next.column
        raise
    return query


def _expression(tokens: TokenStream, strength: int) -> Query:
    left = _operand(tokens)
    operators = 0
    while True:
        tokens.check_row(operators)
        operators += 1
        operator = tokens.next.kind
        own = _STRENGTH.get(operator, 0)
        if own <= strength:
            return left
        place = tokens.place
        tokens.take()
        return_bool = tokens.accept("bool") is not None
        matching = _matching(tokens)
        below = own - 1 if operator == _RIGHT_ASSOCIATIVE else own
        right = tokens.nested(lambda below=below: _expression(tokens, below))  # type: ignore[misc]
        operation = BinaryOperation(
            operator,
            check_leg(operator, "left", left),
            check_leg(operator, "right", right),
            return_bool,
            matching,
            place,
        )
        left = _folded(operation)


def _folded(operation: BinaryOperation) -> MetricQuery:
    left, right = operation.left, operation.right
    for side, leg in (("left", left), ("right", right)):
        if operation.operator in SET_OPERATORS and isinstance(leg, NumberLiteral):
            raise error(
                f"unexpected literal for {side} leg of logical/set binary operation ({operation.operator}): "
                f"{leg.value:f}"
            )
    if isinstance(left, NumberLiteral) and isinstance(right, NumberLiteral):
        return NumberLiteral(operate(operation.operator, left.value, right.value), left.place)
    return operation


def _matching(tokens: TokenStream) -> VectorMatching | None:
    kind = tokens.accept("on", "ignoring")
    if kind is None:
        return None
    labels = tokens.names()
    many: Literal["", "left", "right"] = ""
    included: tuple[str, ...] = ()
    if group := tokens.accept("group_left", "group_right"):
        many = "left" if group.kind == "group_left" else "right"
        if tokens.next.kind == "(":
            included = tokens.names()
    return VectorMatching(labels, kind.kind == "on", many, included)


def _operand(tokens: TokenStream) -> Query:
    kind, place = tokens.next.kind, tokens.place
    name = kind.lower()
    if kind == "{":
        return parse_log_query(tokens)
    if kind == "(":
        tokens.take()
        inner = tokens.nested(lambda: _expression(tokens, 0))
        tokens.expect(")")
        if isinstance(inner, LogQuery) and (more := parse_stages(tokens)):
            return replace(inner, stages=inner.stages + more)
        return inner
    if kind in (NUMBER, "+", "-"):
        return NumberLiteral(signed_number(tokens), place)
    if kind == "variants":
        raise error("multi variant queries are not supported")
    if kind == name.upper() and name in RANGE_OPERATIONS:
        return _range_aggregation(tokens)
    if kind == name.upper() and name in VECTOR_OPERATIONS:
        return _vector_aggregation(tokens)
    if kind == "VECTOR":
        tokens.take()
        tokens.expect("(")
        value = float_of(tokens.number().text)
        tokens.expect(")")
        return Vector(value, place)
    if kind == "LABEL_REPLACE":
        return _label_replace(tokens)
    raise tokens.unexpected()


def _label_replace(tokens: TokenStream) -> LabelReplace:
    place = tokens.place
    tokens.take()
    tokens.expect("(")
    inner = tokens.nested(lambda: _metric(tokens))
    texts: list[str] = []
    for _ in range(4):
        if not tokens.accept(","):
            raise tokens.unexpected(*([","] if texts else []))
        texts.append(tokens.string())
    tokens.expect(")")
    target, replacement, source, pattern = texts
    return check_replacement(LabelReplace(inner, target, replacement, source, pattern, place))


def _metric(tokens: TokenStream) -> MetricQuery:
    found = _expression(tokens, 0)
    if isinstance(found, LogQuery):
        raise tokens.unexpected()
    return found


def _vector_aggregation(tokens: TokenStream) -> VectorAggregation:
    place = tokens.place
    operation = tokens.take().text
    grouping = _grouping(tokens)
    tokens.expect("(")
    parameter = None
    if tokens.next.kind == NUMBER and tokens.after_next.kind == ",":
        parameter = tokens.take().text
        tokens.take()
    inner = tokens.nested(lambda: _metric(tokens))
    tokens.expect(")")
    if grouping is None:
        grouping = _grouping(tokens)
    if grouping == Grouping(()):
        grouping = None
    return check_aggregation(operation, parameter, inner, grouping, place)


def _grouping(tokens: TokenStream) -> Grouping | None:
    kind = tokens.accept("by", "without")
    return Grouping(tokens.names(), kind.kind == "without") if kind else None


def _range_aggregation(tokens: TokenStream) -> RangeAggregation:
    place = tokens.place
    operation = tokens.take().text
    tokens.expect("(")
    parameter = None
    if tokens.next.kind == NUMBER:
        parameter = float_of(tokens.take().text)
        tokens.expect(",")
    elif tokens.next.kind not in ("(", "{"):
        raise tokens.unexpected(NUMBER, "{", "(")
    parts = _range_parts(tokens)
    if parts.interval is None:
        raise tokens.unexpected()
    found = LogRange(parts.query, parts.interval, parts.offset, parts.unwrap)
    tokens.expect(")")
    return check_range_aggregation(RangeAggregation(operation, found, parameter, _grouping(tokens), place))


class _RangeParts:
    """Collects the parts of a range, which may stand in several orders."""

    def __init__(self, query: LogQuery) -> None:
        self.query = query
        self.interval: int | None = None
        self.offset = 0
        self.unwrap: Unwrap | None = None
        self.complete = False
        """Stages stand before the interval or after it, and not on both sides."""


def _range_parts(tokens: TokenStream) -> _RangeParts:
    if tokens.accept("("):
        parts = tokens.nested(lambda: _range_parts(tokens))
        tokens.expect(")")
    else:
        place = tokens.place
        parts = _RangeParts(LogQuery(parse_selector(tokens), (), place))
    while True:
        if tokens.next.kind == RANGE and parts.interval is None:
            parts.complete = bool(parts.query.stages)
            parts.interval = tokens.take().value
            if tokens.accept("offset"):
                parts.offset = tokens.expect(DURATION).value
        elif parts.unwrap is None and not parts.complete and (stages := parse_stages(tokens, may_unwrap=True)):
            parts.query = replace(parts.query, stages=parts.query.stages + stages)
        elif parts.unwrap is None and not parts.complete and tokens.next.kind == "|":
            parts.unwrap = _unwrap(tokens)
        else:
            return parts


def _unwrap(tokens: TokenStream) -> Unwrap:
    tokens.take()
    tokens.expect("unwrap")
    conversion = ""
    if kind := tokens.accept(*CONVERSIONS):
        conversion = kind.text
        tokens.expect("(")
        label = tokens.expect(IDENTIFIER).text
        tokens.expect(")")
    else:
        label = tokens.expect(IDENTIFIER, *_CONVERSION_NAMES).text
    filters: list[LabelFilter] = []
    while tokens.next.kind == "|":
        place = tokens.place
        tokens.take()
        if tokens.next.kind not in LABEL_FILTER_STARTS:
            raise tokens.unexpected(*LABEL_FILTER_STARTS)
        filters.append(LabelFilter(parse_condition(tokens), place))
        check_stage(filters[-1])
    return Unwrap(label, conversion, tuple(filters))  # type: ignore[arg-type]
