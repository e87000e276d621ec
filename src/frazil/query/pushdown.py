"""What Iceberg can use of an Arrow filter, to leave out manifests, files and row groups.

The result lets at least those rows through that the filter does: whatever cannot be told in Iceberg's words is left
out of a conjunction, and makes a disjunction useless. The filter itself is applied to what is left.
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
    BoundPredicate,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    NotNull,
    Or,
    UnboundPredicate,
)
from pyiceberg.expressions.visitors import bind
from pyiceberg.schema import Schema

from frazil.query.arrowtree import Call, Field, Literal, Node, tree_of

_COMPARISONS: dict[str, tuple[Any, Any]] = {
    # With the literal on the right, and on the left.
    "equal": (EqualTo, EqualTo),
    "less": (LessThan, GreaterThan),
    "less_equal": (LessThanOrEqual, GreaterThanOrEqual),
    "greater": (GreaterThan, LessThan),
    "greater_equal": (GreaterThanOrEqual, LessThanOrEqual),
}
_TESTS: dict[str, Any] = {"is_null": IsNull, "is_valid": NotNull}
_AMONG: Any = In
_ALL: BooleanExpression = AlwaysTrue()
_MOST_VALUES = 200
"""Of a list: as many as Iceberg compares with statistics."""


def iceberg_filter(expression: pc.Expression | None, schema: Schema) -> BooleanExpression | None:
    """None when it says nothing that Iceberg could use."""
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
            # Null where the column is: such rows are left out.
            return _filter(then, schema)
    return _usable(_predicate(node), schema)


def _predicate(node: Node) -> BooleanExpression:
    match node:
        case Call(name, (Field((column,)),), _) if name in _TESTS:
            return _predicate_of(_TESTS[name], column)
        case Call("is_in", (Field((column,)),), options) if options is not None:
            values = options["value_set"]
            items = [_plain(value) for value in values.values] if len(values) <= _MOST_VALUES else []
            return _predicate_of(_AMONG, column, items) if items and all(item is not None for item in items) else _ALL
        case Call(name, (Field((column,)), Literal(value)), _) if name in _COMPARISONS:
            return _compared(_COMPARISONS[name][0], column, value)
        case Call(name, (Literal(value), Field((column,))), _) if name in _COMPARISONS:
            return _compared(_COMPARISONS[name][1], column, value)
    return _ALL


def _compared(comparison: Any, column: str, value: pa.Scalar) -> BooleanExpression:
    plain = _plain(value)
    return _ALL if plain is None else _predicate_of(comparison, column, plain)


def _predicate_of(kind: Any, column: str, *values: Any) -> BooleanExpression:
    # With a dot in its name PyIceberg takes a column for a path through structs.
    return _ALL if "." in column else kind(column, *values)


def _plain(value: pa.Scalar) -> Any:
    """The value as Iceberg's literals take it; None for what they do not know."""
    kind = value.type
    if not value.is_valid:
        return None
    if is_timestamp(kind):
        return value.cast(pa.timestamp("us", kind.tz)).value if kind.unit != "ns" else None
    if is_date32(kind):
        return value.value
    known = (is_boolean, is_integer, is_string, is_binary, is_decimal)
    return value.as_py() if any(check(kind) for check in known) else None


def _usable(predicate: BooleanExpression, schema: Schema) -> BooleanExpression:
    """PyIceberg cannot read files by a condition on what is not a single value."""
    if not isinstance(predicate, UnboundPredicate):
        return predicate
    try:
        bound = bind(schema, predicate, case_sensitive=True)
    except (ValueError, TypeError):
        return _ALL
    single = isinstance(bound, BoundPredicate) and bound.term.ref().field.field_type.is_primitive
    return predicate if single else _ALL
