"""Tests that what PyIceberg is told lets through at least what is wanted."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from pyiceberg.expressions import AlwaysFalse, AlwaysTrue, BooleanExpression
from pyiceberg.expressions.visitors import bind, rewrite_not
from pyiceberg.io.pyarrow import expression_to_pyarrow
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

from frazil.lake.schema.table_schema import base_table_schema
from frazil.scan.predicates.arrow import mask
from frazil.scan.predicates.iceberg import to_iceberg
from frazil.scan.predicates.text import parse_where
from frazil.scan.predicates.tree import Column, Comparison, In, Predicate
from tests.scan.predicates.support import SCHEMA, batch_of, predicates, rows

_FLAT = pa.schema([field for field in SCHEMA if not pa.types.is_nested(field.type) and field.name != "service"])
_TABLE = base_table_schema(_FLAT)


def chosen(table: pa.Table, expression: BooleanExpression) -> pa.Table:
    if isinstance(expression, AlwaysTrue):
        return table
    return table.filter(expression_to_pyarrow(bind(_TABLE, rewrite_not(expression), case_sensitive=True), _TABLE))


@given(rows(), predicates())
def test_no_row_that_is_wanted_is_left_out(given_rows: list[dict[str, Any]], predicate: Predicate) -> None:
    batch = batch_of(given_rows).append_column("row", pa.array(range(len(given_rows))))
    wanted = batch.filter(mask(predicate, batch))["row"].to_pylist()
    left = chosen(pa.table(batch), to_iceberg(predicate, _TABLE))["row"].to_pylist()
    assert set(wanted) <= set(left)


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("number > 3 and text != 'x'", "And(left=GreaterThan(term=Reference(name='number'), literal=LongLiteral(3))"),
        ("3 > number", "LessThan(term=Reference(name='number'), literal=LongLiteral(3))"),
        ("number > 1.5", "GreaterThanOrEqual(term=Reference(name='number'), literal=LongLiteral(2))"),
        ("not (number > 1.5)", "LessThan(term=Reference(name='number'), literal=LongLiteral(2))"),
        ("bytes = x'78'", "EqualTo(term=Reference(name='bytes'), literal=BinaryLiteral(b'x'))"),
        ("day <= date '1970-01-03'", "LessThanOrEqual(term=Reference(name='day'), literal=LongLiteral(2))"),
        ("amount < 1.50", "LessThan(term=Reference(name='amount'), literal=DecimalLiteral(Decimal('1.50')))"),
        ("number > 3 or text contains 'x'", "AlwaysTrue()"),
        ('"a.b" = 1', "AlwaysTrue()"),
        ("part.x = 1", "AlwaysTrue()"),
        ("tags['k'] = 'v'", "AlwaysTrue()"),
        ("ratio > 1.5", "GreaterThan(term=Reference(name='ratio'), literal=DoubleLiteral(1.5))"),
        ("not (ratio > 1.5)", "AlwaysTrue()"),
        ("share > 1.5", "AlwaysTrue()"),
        ("ratio is null", "IsNull(term=Reference(name='ratio'))"),
        ("text is not null", "NotNull(term=Reference(name='text'))"),
        ("text starts with 'x'", "StartsWith(term=Reference(name='text'), literal="),
        ("text not starts with 'x'", "AlwaysTrue()"),
        ("number in ()", "AlwaysFalse()"),
        ("number not in (1)", "AlwaysTrue()"),
        ("number = 1e30 or false", "AlwaysFalse()"),
    ],
)
def test_what_is_told(condition: str, told: str) -> None:
    assert str(to_iceberg(parse_where(condition), _TABLE)).startswith(told)


def test_infinite_numbers_are_not_told() -> None:
    for value in (math.inf, -math.inf):
        assert to_iceberg(Comparison(Column("ratio"), "==", value), _TABLE) == AlwaysTrue()
        assert to_iceberg(In(Column("ratio"), frozenset((value, 1.0))), _TABLE) == AlwaysTrue()


def test_columns_that_the_table_does_not_have_yet_are_left_out() -> None:
    table = Schema(NestedField(1, "other", StringType()))
    assert to_iceberg(parse_where("number = 1 or other = 'x'"), table) == AlwaysTrue()
    assert to_iceberg(parse_where("number = 1 and false"), table) == AlwaysFalse()
