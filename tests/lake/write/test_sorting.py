"""Tests that rows are sorted in the order that Iceberg defines."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform, TruncateTransform
from pyiceberg.types import NestedField, StringType, StructType

from frazil.lake.schema.table_schema import topic_fields, with_fresh_ids
from frazil.lake.write.sorting import Sorter, rank

_KINDS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1) | st.integers(0, 3),
    pa.float32(): st.floats(width=32),
    pa.float64(): st.floats() | st.sampled_from([0.0, -0.0, math.nan]),
    pa.string(): st.text(max_size=3),
    pa.binary(): st.binary(max_size=3),
    pa.bool_(): st.booleans(),
    pa.decimal128(10, 2): st.integers(-(10**9), 10**9).map(lambda number: Decimal(number).scaleb(-2)),
}


@st.composite
def _tables(draw: st.DrawFn) -> tuple[pa.Table, list[tuple[int, bool, bool]]]:
    kinds = draw(st.lists(st.sampled_from(list(_KINDS)), min_size=1, max_size=4))
    rows = draw(st.integers(0, 30))
    columns = [
        pa.array(draw(st.lists(st.none() | _KINDS[kind], min_size=rows, max_size=rows)), kind) for kind in kinds
    ]
    keys = draw(
        st.lists(st.tuples(st.integers(0, len(kinds) - 1), st.booleans(), st.booleans()), min_size=1, max_size=4)
    )
    return pa.table(columns, names=[f"c{i}" for i in range(len(kinds))]), keys


@given(_tables())
def test_rows_are_ordered_by_all_keys_and_stay_as_they_came_where_those_are_equal(
    given_rows: tuple[pa.Table, list[tuple[int, bool, bool]]],
) -> None:
    table, keys = given_rows
    schema = with_fresh_ids(topic_fields(table.schema)[0])
    order = SortOrder(*(_field(schema, *key) for key in keys))
    places = Sorter(order, schema).order(table)
    result = list(range(len(table))) if places is None else places.to_pylist()
    expected = list(range(len(table)))
    for column, descending, nulls_first in reversed(keys):
        values = table.column(column).to_pylist()
        filled = [place for place in expected if values[place] is not None]
        empty = [place for place in expected if values[place] is None]
        filled.sort(key=lambda place: _ordered(values[place]), reverse=descending)
        expected = empty + filled if nulls_first else filled + empty
    assert result == expected


def _field(schema: Schema, column: int, descending: bool, nulls_first: bool) -> SortField:
    return SortField(
        source_id=schema.fields[column].field_id,
        transform=IdentityTransform(),
        direction=SortDirection.DESC if descending else SortDirection.ASC,
        null_order=NullOrder.NULLS_FIRST if nulls_first else NullOrder.NULLS_LAST,
    )


def _ordered(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    if math.isnan(value):
        return 2**64
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return bits if bits >= 0 else -(bits + 2**63) - 1


def test_rows_in_order_are_left_alone() -> None:
    table = pa.table({"a": pa.array([1, 1, 2], pa.int64()), "b": ["x", "y", "a"]})
    schema = with_fresh_ids(topic_fields(table.schema)[0])
    order = SortOrder(_field(schema, 0, False, True), _field(schema, 1, False, True))
    assert Sorter(order, schema).order(table) is None


def test_parts_of_structs_and_transforms_are_keys_too() -> None:
    inner = StructType(NestedField(2, "name", StringType(), required=False))
    schema = Schema(NestedField(1, "who", inner, required=False))
    who = pa.array([{"name": "bz"}, None, {"name": "ba"}, {"name": None}, {"name": "az"}])
    order = SortOrder(SortField(2, TruncateTransform(1), SortDirection.ASC, NullOrder.NULLS_LAST))
    places = Sorter(order, schema).order(pa.table({"who": who}))
    assert places is not None
    assert places.to_pylist() == [4, 0, 2, 1, 3]


@pytest.mark.parametrize("nulls_first", [True, False])
def test_a_column_of_nulls_orders_nothing(nulls_first: bool) -> None:
    assert rank(pa.nulls(3, pa.string()), False, nulls_first).values.to_pylist() == [0, 0, 0]
