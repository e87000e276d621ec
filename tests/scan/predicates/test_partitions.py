"""Tests that no file with wanted rows is left out by its partition."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    UnknownTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import (
    BinaryType,
    DateType,
    DecimalType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestamptzType,
)

from frazil.scan.predicates.arrow import mask
from frazil.scan.predicates.partitions import partition_statistics
from frazil.scan.predicates.statistics import ColumnStatistics, may_match
from frazil.scan.predicates.text import parse_where
from frazil.scan.predicates.tree import Column, Comparison, Predicate
from tests.scan.predicates.support import KINDS, SCHEMA, batch_of, leaves

_TYPES: dict[str, IcebergType] = {
    "number": LongType(),
    "small": IntegerType(),
    "amount": DecimalType(9, 2),
    "text": StringType(),
    "bytes": BinaryType(),
    "day": DateType(),
    "moment": TimestamptzType(),
}
_TRANSFORMS: dict[str, list[Transform[Any, Any]]] = {
    name: [IdentityTransform(), VoidTransform(), BucketTransform(7)] for name in _TYPES
}
for name in ("number", "small", "amount", "text", "bytes"):
    _TRANSFORMS[name] += [TruncateTransform(2), TruncateTransform(3)]
for name in ("day", "moment"):
    _TRANSFORMS[name] += [DayTransform(), MonthTransform(), YearTransform()]
_TRANSFORMS["moment"].append(HourTransform())


def stored(value: Any, name: str) -> Any:
    """Returns a value as Iceberg's transforms take it."""
    return pa.scalar(value, KINDS[name][0]).value if name in ("day", "moment") and value is not None else value


@st.composite
def partitioned(draw: st.DrawFn) -> tuple[str, Transform[Any, Any], list[Any], Predicate]:
    name = draw(st.sampled_from(list(_TYPES)))
    values = draw(st.lists(st.sampled_from([None, *KINDS[name][1]]), min_size=1, max_size=4))
    predicate = draw(leaves(name))
    return name, draw(st.sampled_from(_TRANSFORMS[name])), values, predicate


def of_partition(name: str, transform: Transform[Any, Any], values: list[Any]) -> ColumnStatistics:
    apply = transform.transform(_TYPES[name])
    found = [None if value is None else apply(stored(value, name)) for value in values]
    kind = KINDS[name][0]
    if name == "number":
        # Java's integers wrap around.
        found = [None if value is None else (value + 2**63) % 2**64 - 2**63 for value in found]
    if str(transform) != "identity" and (name in ("day", "moment") or str(transform).startswith("bucket")):
        kind = pa.int32()
    numbers = pa.array(found, pa.int64() if name == "moment" else pa.int32()) if name in ("day", "moment") else None
    return partition_statistics(
        transform, pa.array(found, kind) if numbers is None else numbers.cast(kind), KINDS[name][0]
    )


@given(partitioned())
def test_no_file_with_wanted_rows_is_left_out(
    given_case: tuple[str, Transform[Any, Any], list[Any], Predicate],
) -> None:
    name, transform, values, predicate = given_case
    known = {name: of_partition(name, transform, values)}
    empty = dict.fromkeys(SCHEMA.names)
    wanted = mask(predicate, batch_of([{**empty, name: value} for value in values])).to_pylist()
    found = may_match(predicate, SCHEMA, known, len(values)).tolist()
    assert all(may or not true for may, true in zip(found, wanted, strict=True))


@pytest.mark.parametrize(
    ("condition", "transform", "values", "found"),
    [
        ("text = 'b'", IdentityTransform(), pa.array(["a", "b", None]), [False, True, False]),
        ("text is null", IdentityTransform(), pa.array(["a", "b", None]), [False, False, True]),
        ("text > 'abd'", TruncateTransform(2), pa.array(["a", "ab", "b"]), [False, True, True]),
        ("number = 17", TruncateTransform(10), pa.array([0, 10, 20]), [False, True, False]),
        ("amount = 0.17", TruncateTransform(10), pa.array([Decimal("0.00"), Decimal("0.10")]), [False, True]),
        ("day = date '1970-02-01'", MonthTransform(), pa.array([0, 1, 2, None]), [False, True, False, False]),
        ("day = date '1971-02-01'", YearTransform(), pa.array([0, 1, 2]), [False, True, False]),
        ("moment >= '1970-01-02T00:00:00Z'", DayTransform(), pa.array([0, 1, 2]), [False, True, True]),
        ("moment < '1970-01-01T01:00:00Z'", HourTransform(), pa.array([0, 1, 2]), [True, False, False]),
        ("number = 17", UnknownTransform("new"), pa.array([b"x", None]), [True, False]),
        ("number = 17", VoidTransform(), pa.nulls(2), [True, True]),
    ],
)
def test_what_is_ruled_out(
    condition: str, transform: Transform[Any, Any], values: pa.Array, found: list[bool]
) -> None:
    predicate = parse_where(condition)
    assert isinstance(predicate, Comparison) or "null" in condition
    name = predicate.term.name  # type: ignore[union-attr]
    known = {name: partition_statistics(transform, values, KINDS[name][0])}
    assert may_match(predicate, SCHEMA, known, len(values)).tolist() == found


def test_a_hash_rules_out_other_buckets() -> None:
    numbers = pa.array(range(16), pa.int32())
    known = {name: partition_statistics(BucketTransform(16), numbers, KINDS[name][0]) for name in ("number", "text")}
    assert may_match(parse_where("text = 'a'"), SCHEMA, known, 16).sum() == 1
    assert may_match(parse_where("number in (1, 34)"), SCHEMA, known, 16).sum() == 2
    assert may_match(parse_where("number != 1 and text > 'a'"), SCHEMA, known, 16).all()


def test_a_time_before_1970_may_have_been_rounded_up() -> None:
    known = {"moment": partition_statistics(DayTransform(), pa.array([0]), KINDS["moment"][0])}
    before = Comparison(Column("moment"), "<", datetime(1969, 12, 31, 12, tzinfo=UTC))
    assert may_match(before, SCHEMA, known, 1).all()
