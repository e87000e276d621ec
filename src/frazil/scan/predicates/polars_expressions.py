"""Turns what Polars pushes down to a scan into predicates, as far as both mean the same.

Polars writes its expressions as JSON. For Polars NaN is greater than all numbers and equal to itself, so it compares
floating-point columns itself.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow.types import is_boolean, is_date32, is_integer, is_timestamp

from frazil.errors import CallError
from frazil.scan.predicates.arrow import check
from frazil.scan.predicates.simplify import all_of
from frazil.scan.predicates.terms import is_text
from frazil.scan.predicates.tree import (
    And,
    Column,
    Comparison,
    Contains,
    IsNull,
    Not,
    Operator,
    Or,
    Predicate,
    StartsWith,
    Value,
)

if TYPE_CHECKING:
    import polars as pl

_COMPARISONS: dict[str, tuple[Operator, Operator]] = {
    # The first is for a literal on the right, the second for a literal on the left.
    "Eq": ("==", "=="),
    "NotEq": ("!=", "!="),
    "Lt": ("<", ">"),
    "LtEq": ("<=", ">="),
    "Gt": (">", "<"),
    "GtEq": (">=", "<="),
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PER_SECOND = {"Milliseconds": 10**3, "Microseconds": 10**6}


class _Untranslatable(Exception):
    """Raised for a part of an expression that is no predicate."""


def from_polars(expression: pl.Expr, schema: pa.Schema) -> tuple[Predicate | None, pl.Expr | None]:
    """Returns a predicate and an expression that is still to be applied; both are true for the rows that are wanted.

    `schema` is that of the rows in Arrow.
    """
    import polars as pl

    try:
        tree = json.loads(expression.meta.serialize(format="json"))
    except pl.exceptions.PolarsError:
        # Functions in Python cannot be written as JSON.
        return None, expression
    found, complete = _conjuncts(tree, schema)
    return found, None if complete else expression


def _conjuncts(node: Any, schema: pa.Schema) -> tuple[Predicate | None, bool]:
    match node:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            parts = [_conjuncts(left, schema), _conjuncts(right, schema)]
            return all_of(*(part for part, _ in parts)), all(complete for _, complete in parts)
    try:
        found = _predicate(node, schema)
        check(found, schema)
    except (_Untranslatable, CallError):
        return None, False
    return found, True


def _predicate(node: Any, schema: pa.Schema) -> Predicate:
    match node:
        case {"BinaryExpr": {"left": left, "op": "And" | "LogicalAnd", "right": right}}:
            return And((_predicate(left, schema), _predicate(right, schema)))
        case {"BinaryExpr": {"left": left, "op": "Or" | "LogicalOr", "right": right}}:
            return Or((_predicate(left, schema), _predicate(right, schema)))
        case {"BinaryExpr": {"left": {"Column": str(name)}, "op": str(operator), "right": {"Literal": value}}}:
            return _comparison(name, operator, 0, value, schema)
        case {"BinaryExpr": {"left": {"Literal": value}, "op": str(operator), "right": {"Column": str(name)}}}:
            return _comparison(name, operator, 1, value, schema)
        case {"Function": {"input": list(inputs), "function": function}}:
            return _function(function, inputs, schema)
    raise _Untranslatable


def _function(function: Any, inputs: list[Any], schema: pa.Schema) -> Predicate:
    match function, inputs:
        case {"Boolean": "Not"}, [child]:
            return Not(_predicate(child, schema))
        case {"Boolean": "IsNull"}, [{"Column": str(name)}]:
            return IsNull(_column(name, schema))
        case {"Boolean": "IsNotNull"}, [{"Column": str(name)}]:
            return Not(IsNull(_column(name, schema)))
        case {"Boolean": {"IsBetween": {"closed": "Both"}}}, [
            {"Column": str(name)},
            {"Literal": low},
            {"Literal": high},
        ]:
            return And((_comparison(name, "GtEq", 0, low, schema), _comparison(name, "LtEq", 0, high, schema)))
        case {"StringExpr": "StartsWith"}, [{"Column": str(name)}, {"Literal": {"Scalar": {"String": str(text)}}}]:
            return StartsWith(_column(name, schema), text)
        case (
            {"StringExpr": {"Contains": {"literal": True}}},
            [{"Column": str(name)}, {"Literal": {"Scalar": {"String": str(text)}}}],
        ):
            return Contains(_column(name, schema), text)
    raise _Untranslatable


def _comparison(name: str, operator: str, side: int, literal: Any, schema: pa.Schema) -> Predicate:
    if operator not in _COMPARISONS:
        raise _Untranslatable
    column = _column(name, schema)
    value = _value(literal, schema.field(name).type)
    return Comparison(column, _COMPARISONS[operator][side], value)


def _column(name: str, schema: pa.Schema) -> Column:
    """Returns a column, which Polars names without a path."""
    if name not in schema.names:
        raise _Untranslatable
    return Column(name)


def _value(literal: Any, kind: pa.DataType) -> Value:
    """Returns a literal if Polars and a predicate compare it with such a column in the same way."""
    match literal:
        case {"Dyn": {"Int": int(value)}} if is_integer(kind):
            return value
        case {"Scalar": {"String": str(value)}} if is_text(kind):
            return value
        case {"Scalar": {"Boolean": bool(value)}} if is_boolean(kind):
            return value
        case {"Scalar": {"Date": int(value)}} if is_date32(kind):
            return value
        case {"Scalar": {"Datetime": [int(value), str(unit), zone]}} if is_timestamp(kind) and unit in _PER_SECOND:
            if (zone is None) != (kind.tz is None):
                raise _Untranslatable
            return _moment(value, unit, kind)
        case {"Scalar": dict(typed)} if is_integer(kind):
            for name, value in typed.items():
                if name.startswith(("Int", "UInt")) and isinstance(value, int):
                    return value
    raise _Untranslatable


def _moment(value: int, unit: str, kind: pa.DataType) -> datetime:
    try:
        found = _EPOCH + timedelta(microseconds=value * 10**6 // _PER_SECOND[unit])
    except OverflowError as error:
        raise _Untranslatable from error
    return found if kind.tz is not None else found.replace(tzinfo=None)
