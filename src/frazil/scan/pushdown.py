"""Translates as much of an Arrow filter as Iceberg can use to skip manifests, files and row groups.

The result lets at least all rows through that the filter does. A part that Iceberg cannot express is left out of a
conjunction, and makes a disjunction useless. The filter itself is applied to the rows that are read.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow.types import is_binary, is_boolean, is_date32, is_decimal, is_integer, is_string, is_timestamp
from pyiceberg.expressions import (
    AlwaysTrue,
    And,
    BooleanExpression,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotNull,
    Or,
)
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampType,
    TimestamptzType,
)

from frazil.scan.arrow_tree import Call, Field, Literal, Node, tree_of

_COMPARISONS: dict[str, tuple[Any, Any]] = {
    # The first is for a literal on the right, the second for a literal on the left.
    "equal": (EqualTo, EqualTo),
    "less": (LessThan, GreaterThan),
    "less_equal": (LessThanOrEqual, GreaterThanOrEqual),
    "greater": (GreaterThan, LessThan),
    "greater_equal": (GreaterThanOrEqual, LessThanOrEqual),
}
_MICROSECONDS = {"s": 1_000_000, "ms": 1000, "us": 1}
_AMONG: Any = In
_ALL: BooleanExpression = AlwaysTrue()
_MOST_VALUES = 200
"""Iceberg compares lists of at most this length with statistics."""


def iceberg_filter(expression: pc.Expression | None, schema: Schema) -> BooleanExpression | None:
    """Returns None when the filter has nothing that Iceberg could use."""
    found = _ALL if expression is None else _filter(tree_of(expression), schema)
    return None if isinstance(found, AlwaysTrue) else found


def _filter(node: Node, schema: Schema) -> BooleanExpression:
    match node:
        case Call("and_kleene" | "and", (left, right), _):
            return And(_filter(left, schema), _filter(right, schema))
        case Call("or_kleene" | "or", (left, right), _):
            return Or(_filter(left, schema), _filter(right, schema))
        case Call("if_else", (Call("is_valid", (Field(),), _), then, Literal(otherwise)), _) if (
            not otherwise.is_valid
        ):
            # The result is null where the column is null, and such rows are filtered out.
            return _filter(then, schema)
    return _predicate(node, schema)


def _predicate(node: Node, schema: Schema) -> BooleanExpression:
    match node:
        case Call("is_null", (Field((column,)),), options) if options is None or not options["nan_is_null"].as_py():
            return _predicate_of(IsNull, column, schema)
        case Call("is_valid", (Field((column,)),), _):
            return _predicate_of(NotNull, column, schema)
        case Call("is_in", (Field((column,)),), options) if options is not None:
            values = options["value_set"].values
            return _predicate_of(_AMONG, column, schema, *values) if 0 < len(values) <= _MOST_VALUES else _ALL
        case Call(name, (Field((column,)), Literal(value)), _) if name in _COMPARISONS:
            return _predicate_of(_COMPARISONS[name][0], column, schema, value)
        case Call(name, (Literal(value), Field((column,))), _) if name in _COMPARISONS:
            return _predicate_of(_COMPARISONS[name][1], column, schema, value)
    return _ALL


def _predicate_of(kind: Any, column: str, schema: Schema, *values: pa.Scalar) -> BooleanExpression:
    # PyIceberg takes a name with a dot for a path through structs.
    field = None if "." in column else next((each for each in schema.fields if each.name == column), None)
    # PyIceberg cannot read files with a condition on a nested column.
    if field is None or not isinstance(field.field_type, PrimitiveType):
        return _ALL
    plain = [_plain(value, field.field_type) for value in values]
    if any(value is None for value in plain):
        return _ALL
    predicate: BooleanExpression = kind(column, plain) if kind is _AMONG else kind(column, *plain)
    return predicate


def _plain(value: pa.Scalar, column: PrimitiveType) -> Any:
    """Returns the value as an Iceberg literal, or None unless it has the type of the column.

    Arrow compares both sides in a common type. PyIceberg converts the value to the type of the column, and may lose
    something: 1.5 becomes 2 for integers.
    """
    kind = value.type
    if not value.is_valid:
        return None
    match column:
        case IntegerType() | LongType() if is_integer(kind):
            return _int64(value.as_py())
        case BooleanType() if is_boolean(kind):
            return value.as_py()
        case StringType() if is_string(kind):
            return value.as_py()
        case BinaryType() if is_binary(kind):
            return value.as_py()
        case DecimalType(scale=scale) if is_decimal(kind) and kind.scale == scale:
            return value.as_py()
        case DateType() if is_date32(kind):
            return value.value
        case TimestampType() | TimestamptzType() if is_timestamp(kind) and kind.unit in _MICROSECONDS:
            return _int64(value.value * _MICROSECONDS[kind.unit])
    return None


def _int64(value: int) -> int | None:
    return value if -(2**63) <= value < 2**63 else None
