"""Applies one condition on rows wherever the rows are.

Files of the table are skipped by their statistics, and are read with the same condition that filters records of the
log. So the result does not depend on where rows happen to be.
"""

from __future__ import annotations

import pyarrow.compute as pc
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    And,
    BooleanExpression,
    BoundPredicate,
    Or,
    Reference,
    UnboundPredicate,
)
from pyiceberg.expressions.visitors import BooleanExpressionVisitor, bind, rewrite_not, visit
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.schema import Schema

from frazil.errors import CallError


def columns_of(where: BooleanExpression | None) -> tuple[str, ...]:
    """Returns the columns that the condition uses. For nested columns it is the outermost."""
    if where is None:
        return ()
    names: list[str] = visit(where, _ColumnNames())
    return tuple(dict.fromkeys(names))


def arrow_filter(where: BooleanExpression | None, schema: Schema) -> pc.Expression | None:
    """Returns the condition for rows of this schema. Raises `CallError` when it does not make sense for them."""
    if where is None:
        return None
    try:
        return expression_to_pyarrow(bind(schema, rewrite_not(where), case_sensitive=True), schema)
    except (ValueError, TypeError) as error:
        raise CallError(f"These rows cannot be chosen by {where}: {error}") from error


def file_filter(where: BooleanExpression | None, schema: Schema) -> BooleanExpression:
    """Returns a condition that selects at least all files of a table with matching rows.

    Columns that the table does not have yet are ignored.
    """
    return AlwaysTrue() if where is None else visit(rewrite_not(where), _KnownColumns(schema))


def _name(predicate: UnboundPredicate) -> str:
    assert isinstance(predicate.term, Reference)
    return predicate.term.name


class _ColumnNames(BooleanExpressionVisitor[list[str]]):
    def visit_true(self) -> list[str]:
        return []

    def visit_false(self) -> list[str]:
        return []

    def visit_not(self, child_result: list[str]) -> list[str]:
        return child_result

    def visit_and(self, left_result: list[str], right_result: list[str]) -> list[str]:
        return left_result + right_result

    def visit_or(self, left_result: list[str], right_result: list[str]) -> list[str]:
        return left_result + right_result

    def visit_unbound_predicate(self, predicate: UnboundPredicate) -> list[str]:
        return [_name(predicate).partition(".")[0]]

    def visit_bound_predicate(self, predicate: BoundPredicate) -> list[str]:
        return [predicate.term.ref().field.name]


class _KnownColumns(BooleanExpressionVisitor[BooleanExpression]):
    """Replaces predicates on unknown columns by true. Without `Not` that can only let more rows through."""

    def __init__(self, schema: Schema) -> None:
        self._names = set(schema.column_names)

    def visit_true(self) -> BooleanExpression:
        return AlwaysTrue()

    def visit_false(self) -> BooleanExpression:
        return AlwaysFalse()

    def visit_not(self, child_result: BooleanExpression) -> BooleanExpression:
        raise AssertionError(child_result)

    def visit_and(self, left_result: BooleanExpression, right_result: BooleanExpression) -> BooleanExpression:
        return And(left_result, right_result)

    def visit_or(self, left_result: BooleanExpression, right_result: BooleanExpression) -> BooleanExpression:
        return Or(left_result, right_result)

    def visit_unbound_predicate(self, predicate: UnboundPredicate) -> BooleanExpression:
        return predicate if _name(predicate) in self._names else AlwaysTrue()

    def visit_bound_predicate(self, predicate: BoundPredicate) -> BooleanExpression:
        raise AssertionError(predicate)
