"""Tests that transforms of whole arrays return what PyIceberg's return for each value."""

from __future__ import annotations

import uuid
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

from frazil.lake.schema.arrow import arrow_type, plain_values
from frazil.lake.write.transforms import kernel
from tests.examples import examples

_INTS = st.integers(-(2**31), 2**31 - 1)
_LONGS = st.integers(-(2**63), 2**63 - 1)
_MICROSECONDS = st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999)
_DAYS = st.integers(-719_162, 2_932_896)
_DECIMALS = st.integers(-(10**9) + 100, 10**9 - 1).map(lambda number: Decimal(number).scaleb(-2))

_VALUES: dict[IcebergType, st.SearchStrategy[Any]] = {
    IntegerType(): _INTS,
    LongType(): _LONGS,
    DateType(): _DAYS,
    TimeType(): st.integers(0, 86_399_999_999),
    TimestampType(): _MICROSECONDS,
    TimestamptzType(): _MICROSECONDS,
    StringType(): st.text(),
    BinaryType(): st.binary(),
    FixedType(5): st.binary(min_size=5, max_size=5),
    UUIDType(): st.uuids().map(lambda value: value.bytes),
    DecimalType(9, 2): _DECIMALS,
}
_CALENDAR: list[Transform[Any, Any]] = [YearTransform(), MonthTransform(), DayTransform()]
_CASES: list[tuple[Transform[Any, Any], IcebergType]] = [
    *((BucketTransform(count), kind) for kind in _VALUES for count in (1, 16, 1_000_003)),
    *((TruncateTransform(width), kind) for kind in (IntegerType(), LongType()) for width in (1, 10, 1000)),
    *((TruncateTransform(3), kind) for kind in (StringType(), BinaryType(), DecimalType(9, 2))),
    *((transform, kind) for transform in _CALENDAR for kind in (DateType(), TimestampType(), TimestamptzType())),
    (HourTransform(), TimestampType()),
    (HourTransform(), TimestamptzType()),
]


@pytest.mark.parametrize(("transform", "kind"), _CASES, ids=str)
@settings(max_examples=examples(20))
@given(data=st.data())
def test_each_value_is_transformed_as_pyiceberg_does(
    transform: Transform[Any, Any], kind: IcebergType, data: st.DataObject
) -> None:
    values = data.draw(st.lists(st.none() | _VALUES[kind]))
    array = _array(values, kind)
    one = transform.transform(kind)
    expected = [_wrapped(one(value), transform, kind) for value in values]
    assert _plain(kernel(transform, kind)(array)).to_pylist() == expected
    assert _plain(kernel(transform, kind)(array.slice(1))).to_pylist() == expected[1:]


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (IntegerType(), 34, 2017239379),
        (LongType(), 34, 2017239379),
        (DecimalType(9, 2), Decimal("14.20"), -500754589),
        (DateType(), 17_486, -653330422),
        (TimeType(), 81_068_000_000, -662762989),
        (TimestampType(), 1_510_871_468_000_000, -2047944441),
        (TimestamptzType(), 1_510_871_468_000_000, -2047944441),
        (StringType(), "iceberg", 1210000089),
        (UUIDType(), uuid.UUID("f79c3e09-677c-4bbd-a479-3f349cb785e7").bytes, 1488055340),
        (FixedType(4), b"\0\1\2\3", -188683207),
        (BinaryType(), b"\0\1\2\3", -188683207),
    ],
    ids=str,
)
def test_hashes_are_those_of_the_specification(kind: IcebergType, value: Any, expected: int) -> None:
    count = 2**31 - 1
    assert kernel(BucketTransform(count), kind)(_array([value], kind)).to_pylist() == [
        (expected & 0x7FFF_FFFF) % count
    ]


def _wrapped(value: Any, transform: Transform[Any, Any], kind: IcebergType) -> Any:
    """Wraps truncated values below the smallest integer around, as Java does."""
    if value is None or not isinstance(transform, TruncateTransform) or not isinstance(value, int):
        return value
    size = 2**32 if isinstance(kind, IntegerType) else 2**64
    return (value + size // 2) % size - size // 2


def _array(values: list[Any], kind: IcebergType) -> pa.Array:
    target = arrow_type(kind)
    if isinstance(kind, DateType):
        return pa.array(values, pa.int32()).view(target)
    if isinstance(kind, TimestampType | TimestamptzType | TimeType):
        return pa.array(values, pa.int64()).view(target)
    if isinstance(kind, UUIDType):
        values = [None if value is None else uuid.UUID(bytes=value) for value in values]
    return plain_values(pa.array(values, target))


def _plain(array: pa.Array) -> pa.Array:
    return array.view(pa.int32()) if array.type == pa.date32() else array


def test_years_far_outside_any_calendar_have_their_partition() -> None:
    far = pa.array([2**63 - 1, -(2**63)], pa.int64()).view(pa.timestamp("us"))
    assert kernel(YearTransform(), TimestampType())(far).to_pylist() == [294_247 - 1970, -290_308 - 1970]
    assert kernel(DayTransform(), TimestampType())(far).view(pa.int32()).to_pylist() == [106_751_991, -106_751_992]
    assert len(kernel(HourTransform(), TimestampType())(far)) == 2
