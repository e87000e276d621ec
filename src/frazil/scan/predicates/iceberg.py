"""Tells PyIceberg which files, row groups and rows may be wanted, where it plans and reads."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pyarrow as pa
from pyarrow.types import is_date32, is_timestamp
from pyiceberg.expressions import (
    AlwaysFalse,
    AlwaysTrue,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotEqualTo,
    NotNull,
    StartsWith,
)
from pyiceberg.expressions import And as IcebergAnd
from pyiceberg.expressions import Or as IcebergOr
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from frazil.lake.schema.arrow import arrow_field
from frazil.scan.predicates import tree
from frazil.scan.predicates.arrow import Leaf
from frazil.scan.predicates.fitting import Fitted, fit
from frazil.scan.predicates.simplify import negate_leaves
from frazil.scan.predicates.tree import And, Column, Comparison, Not, Operator, Or, Predicate

_ALL: BooleanExpression = AlwaysTrue()
_NONE: BooleanExpression = AlwaysFalse()
# PyIceberg's type annotations for the arguments of these are wrong.
_COMPARISONS: dict[Operator, Any] = {
    "==": EqualTo,
    "!=": NotEqualTo,
    "<": LessThan,
    "<=": LessThanOrEqual,
    ">": GreaterThan,
    ">=": GreaterThanOrEqual,
}
_IS_NULL: Any = IsNull
_IS_NOT_NULL: Any = NotNull
_AMONG: Any = In
_STARTS: Any = StartsWith
_OPPOSITE: dict[Operator, Operator] = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
_MOST_VALUES = 200
"""Iceberg compares lists of at most this length with statistics."""
_COMPARED = (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
)


def to_iceberg(predicate: Predicate | None, schema: Schema) -> BooleanExpression:
    """Returns an expression that lets at least all rows through for which the predicate is true.

    What PyIceberg cannot say, or does not say exactly, is left out, as are columns that the schema does not have.
    """
    return _ALL if predicate is None else _filter(negate_leaves(predicate), schema)


def _filter(predicate: Predicate, schema: Schema) -> BooleanExpression:
    match predicate:
        case And(children):
            return reduce(IcebergAnd, (_filter(child, schema) for child in children), _ALL)
        case Or(children):
            return reduce(IcebergOr, (_filter(child, schema) for child in children), _NONE)
        case Not(child):
            assert not isinstance(child, Not | And | Or)
            return _leaf(child, schema, negated=True)
    return _leaf(predicate, schema, negated=False)


def _leaf(leaf: Leaf, schema: Schema, *, negated: bool) -> BooleanExpression:
    name = leaf.term.name if isinstance(leaf.term, Column) else ""
    # PyIceberg takes a name with a dot for a path through structs, and cannot read files with a condition on one.
    field = None if "." in name else next((each for each in schema.fields if each.name == name), None)
    if field is None or not isinstance(field.field_type, PrimitiveType):
        return _ALL
    if isinstance(leaf, tree.IsNull):
        null: BooleanExpression = (_IS_NOT_NULL if negated else _IS_NULL)(name)
        return null
    if not isinstance(field.field_type, _COMPARED):
        return _ALL
    kind = arrow_field(field).type
    try:
        return _compared(leaf, field, kind, negated)
    except ValueError:
        # The table has another type than the rows, for which the predicate makes sense.
        return _ALL


def _compared(leaf: Leaf, field: NestedField, kind: pa.DataType, negated: bool) -> BooleanExpression:
    name = field.name
    match leaf:
        case Comparison(_, operator, value):
            # All comparisons with NaN but != are false, so none of them can be turned around for numbers.
            if not negated:
                return _comparison(name, fit(operator, value, kind))
            if not isinstance(field.field_type, DoubleType):
                fitted = fit(operator, value, kind)
                return _comparison(name, _negated(fitted))
        case tree.In(_, values) if not negated and len(values) <= _MOST_VALUES:
            all_fitted = [fit("==", value, kind) for value in values]
            literals = [_literal(each.value) for each in all_fitted if isinstance(each, Fitted)]
            if None in literals:
                return _ALL
            found: BooleanExpression = _AMONG(name, literals) if literals else _NONE
            return found
        case tree.StartsWith(_, prefix) if not negated and isinstance(field.field_type, StringType):
            starts: BooleanExpression = _STARTS(name, prefix)
            return starts
    return _ALL


def _negated(fitted: Fitted | bool) -> Fitted | bool:
    return not fitted if isinstance(fitted, bool) else Fitted(_OPPOSITE[fitted.operator], fitted.value)


def _comparison(name: str, fitted: Fitted | bool) -> BooleanExpression:
    if isinstance(fitted, bool):
        return _ALL if fitted else _NONE
    literal = _literal(fitted.value)
    found: BooleanExpression = _ALL if literal is None else _COMPARISONS[fitted.operator](name, literal)
    return found


def _literal(value: pa.Scalar) -> Any:
    """Returns a value as PyIceberg takes it, or None if it would take it for another."""
    if is_timestamp(value.type) or is_date32(value.type):
        return value.value
    plain = value.as_py()
    return None if isinstance(plain, float) and abs(plain) == float("inf") else plain
