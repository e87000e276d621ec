"""Tests that bounds of many files are read as PyIceberg reads each of them."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.conversions import to_bytes
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestamptzType,
    UUIDType,
)

from frazil.scan.planning.column_bounds import bounds_array

VALUES: dict[PrimitiveType, st.SearchStrategy[Any]] = {
    BooleanType(): st.booleans(),
    IntegerType(): st.integers(-(2**31), 2**31 - 1),
    LongType(): st.integers(-(2**63), 2**63 - 1),
    FloatType(): st.floats(width=32, allow_nan=False),
    DoubleType(): st.floats(allow_nan=False),
    DateType(): st.integers(-(2**31), 2**31 - 1),
    TimestamptzType(): st.integers(-(2**63), 2**63 - 1),
    StringType(): st.text(),
    BinaryType(): st.binary(),
    FixedType(3): st.binary(min_size=3, max_size=3),
    DecimalType(20, 4): st.integers(-(10**18), 10**18).map(lambda n: Decimal(n).scaleb(-4)),
    UUIDType(): st.uuids(),
}


@pytest.mark.parametrize("kind", VALUES, ids=str)
@given(data=st.data())
def test_bounds_are_those_of_each_file(kind: PrimitiveType, data: st.DataObject) -> None:
    values = data.draw(st.lists(st.one_of(st.none(), VALUES[kind]), max_size=20))
    raw = pa.array([None if value is None else to_bytes(kind, value) for value in values], pa.binary())
    found = bounds_array(raw, kind)
    if pa.types.is_temporal(found.type):
        found = found.view(pa.int32() if pa.types.is_date32(found.type) else pa.int64())
    assert found.to_pylist() == [value.bytes if isinstance(value, uuid.UUID) else value for value in values]


def test_bounds_of_a_narrower_type_are_those_of_older_files() -> None:
    old, new = to_bytes(IntegerType(), -5), to_bytes(LongType(), 2**40)
    assert bounds_array(pa.array([old, None, new], pa.binary()), LongType()).to_pylist() == [-5, None, 2**40]
    assert bounds_array(pa.array([b"\0"], pa.binary()), LongType()).to_pylist() == [None]
