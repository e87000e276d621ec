"""Parses conditions on columns that people write, such as `amount > 10 and country = 'de'`.

PyIceberg converts each value to the type of its column, and rounds it for integers. So a value between two integers
is first expressed by these.
"""

from __future__ import annotations

from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, InvalidOperation
from typing import Any

import pyarrow.compute as pc
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundPredicate,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
    LiteralPredicate,
    Not,
    NotEqualTo,
    NotIn,
    Or,
    Reference,
    SetPredicate,
    UnboundPredicate,
)
from pyiceberg.expressions.literals import DecimalLiteral, Literal, StringLiteral
from pyiceberg.expressions.parser import parse
from pyiceberg.expressions.visitors import BooleanExpressionVisitor, bind, visit
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, LongType
from pyparsing import ParseException

# PyIceberg's type annotations for the arguments of these are wrong.
_AT_MOST: Any = LessThanOrEqual
_AT_LEAST: Any = GreaterThanOrEqual
_AMONG: Any = In
_NOT_AMONG: Any = NotIn


def parse_where(text: str, schema: Schema) -> pc.Expression:
    """Raises `ValueError` or `TypeError` when the text cannot be parsed, or makes no sense for these columns."""
    try:
        condition = parse(text)
    except ParseException as error:
        raise ValueError(f"{error.pstr!r} cannot be read as a condition on columns.") from error
    return expression_to_pyarrow(
        bind(schema, visit(condition, _WholeNumberLiterals(schema)), case_sensitive=True), schema
    )


class _WholeNumberLiterals(BooleanExpressionVisitor[BooleanExpression]):
    """Rewrites a condition so that integer columns are compared with integers only."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def visit_true(self) -> BooleanExpression:
        return AlwaysTrue()

    def visit_false(self) -> BooleanExpression:
        return AlwaysFalse()

    def visit_not(self, child_result: BooleanExpression) -> BooleanExpression:
        return Not(child_result)

    def visit_and(self, left_result: BooleanExpression, right_result: BooleanExpression) -> BooleanExpression:
        return And(left_result, right_result)

    def visit_or(self, left_result: BooleanExpression, right_result: BooleanExpression) -> BooleanExpression:
        return Or(left_result, right_result)

    def visit_bound_predicate(self, predicate: BoundPredicate) -> BooleanExpression:
        raise AssertionError(predicate)

    def visit_unbound_predicate(self, predicate: UnboundPredicate) -> BooleanExpression:
        assert isinstance(predicate.term, Reference)
        column = predicate.term.name
        if not isinstance(self._schema.find_type(column), IntegerType | LongType):
            return predicate
        if isinstance(predicate, SetPredicate):
            whole = {literal for literal in predicate.literals if _whole_neighbours(literal) is None}
            found: BooleanExpression = (_AMONG if isinstance(predicate, In) else _NOT_AMONG)(column, whole)
            return found
        if isinstance(predicate, LiteralPredicate) and (neighbours := _whole_neighbours(predicate.literal)):
            return _compare_with_neighbours(predicate, column, *neighbours)
        return predicate


def _whole_neighbours(literal: Literal[Any]) -> tuple[int, int] | None:
    """Returns the integers before and after a value that lies between them, else None."""
    if not isinstance(literal, DecimalLiteral | StringLiteral):
        return None
    try:
        value = Decimal(literal.value)
        below = int(value.to_integral_value(ROUND_FLOOR))
        above = int(value.to_integral_value(ROUND_CEILING))
    except (InvalidOperation, ValueError, OverflowError):
        return None
    return (below, above) if below < above else None


def _compare_with_neighbours(predicate: LiteralPredicate, column: str, below: int, above: int) -> BooleanExpression:
    at_most: BooleanExpression = _AT_MOST(column, below)
    at_least: BooleanExpression = _AT_LEAST(column, above)
    match predicate:
        case LessThan() | LessThanOrEqual():
            return at_most
        case GreaterThan() | GreaterThanOrEqual():
            return at_least
        case EqualTo():
            # This is never true, and null where the column is null.
            return And(at_most, at_least)
        case NotEqualTo():
            return Or(at_most, at_least)
    return predicate
