"""Tests that the filter for Iceberg lets through at least what the original filter does."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.lake.schema.table_schema import base_table_schema
from frazil.scan.predicate import arrow_filter
from frazil.scan.pushdown import iceberg_filter

_KINDS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "number": (pa.int64(), st.integers(-3, 3)),
    "small": (pa.int32(), st.integers(-3, 3)),
    "text": (pa.string(), st.sampled_from(["", "a", "b'", 'c"'])),
    "flag": (pa.bool_(), st.booleans()),
    "bytes": (pa.binary(), st.sampled_from([b"", b"\x00", b"\xff"])),
    "amount": (pa.decimal128(9, 2), st.sampled_from([Decimal("1.50"), Decimal("-2.00")])),
    "day": (pa.date32(), st.sampled_from([date(1969, 12, 31), date(2024, 2, 29)])),
    "time": (
        pa.timestamp("us", "UTC"),
        st.sampled_from([datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, tzinfo=UTC)]),
    ),
    "ratio": (pa.float64(), st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("inf")])),
    "a.b": (pa.int64(), st.integers(-3, 3)),
    "part": (pa.struct([("x", pa.int64())]), st.fixed_dictionaries({"x": st.none() | st.integers(-3, 3)})),
}
_SCHEMA = pa.schema([(name, kind) for name, (kind, _) in _KINDS.items()])
_COMPARISONS: Any = [
    lambda a, b: a == b,
    lambda a, b: a != b,
    lambda a, b: a < b,
    lambda a, b: a <= b,
    lambda a, b: a > b,
    lambda a, b: a >= b,
]


_OTHER_KINDS: dict[str, st.SearchStrategy[pa.Scalar]] = {
    "number": st.decimals(-3, 3, places=1).map(pa.scalar),
    "small": st.sampled_from([pa.scalar(2**40), pa.scalar(2**64 - 1, pa.uint64()), pa.scalar(Decimal("-0.5"))]),
    "amount": st.decimals(-3, 3, places=3).map(pa.scalar),
    "day": st.sampled_from([-1, 1_709_208_000]).map(lambda seconds: pa.scalar(seconds, pa.timestamp("s"))),
    "time": st.sampled_from([pa.scalar(0, pa.timestamp("ns", "UTC")), pa.scalar(2**62, pa.timestamp("s", "UTC"))]),
    "text": st.sampled_from([b"", b"a"]).map(pa.scalar),
    "bytes": st.sampled_from(["", "a"]).map(pa.scalar),
}
"""Arrow can compare these values with a column though they have another type."""


@st.composite
def mixed(draw: st.DrawFn) -> pc.Expression:
    name = draw(st.sampled_from(list(_OTHER_KINDS)))
    found: pc.Expression = draw(st.sampled_from(_COMPARISONS))(pc.field(name), draw(_OTHER_KINDS[name]))
    return found


@st.composite
def predicates(draw: st.DrawFn) -> pc.Expression:
    name = draw(st.sampled_from(list(_KINDS)))
    kind, values = _KINDS[name]
    field = pc.field(name)
    if name == "part":
        field, kind, values = pc.field("part", "x"), pa.int64(), st.integers(-3, 3)
    what = draw(st.sampled_from(["compare", "turned", "null", "valid", "in", "not in"]))
    value = pa.scalar(draw(values), kind)
    match what:
        case "null":
            return field.is_null(nan_is_null=draw(st.booleans()))
        case "valid":
            return field.is_valid()
        case "in" | "not in":
            among = field.isin(pa.array(draw(st.lists(values, max_size=3)), kind))
            return among if what == "in" else ~among
    compare = draw(st.sampled_from(_COMPARISONS))
    left, right = (field, pc.scalar(value)) if what == "compare" else (pc.scalar(value), field)
    found: pc.Expression = compare(left, right)
    return found


def filters() -> st.SearchStrategy[pc.Expression]:
    return st.recursive(
        predicates(),
        lambda inner: (
            st.builds(lambda a, b: a & b, inner, inner)
            | st.builds(lambda a, b: a | b, inner, inner)
            | inner.map(lambda a: ~a)
        ),
        max_leaves=5,
    )


def tables() -> st.SearchStrategy[pa.Table]:
    row = st.fixed_dictionaries({name: st.none() | values for name, (_, values) in _KINDS.items()})
    return st.lists(row, min_size=1, max_size=6).map(lambda given: pa.Table.from_pylist(given, _SCHEMA))


@given(tables(), filters())
def test_no_row_that_is_wanted_is_left_out(table: pa.Table, wanted: pc.Expression) -> None:
    schema = base_table_schema(_SCHEMA)
    coarse = arrow_filter(iceberg_filter(wanted, schema), schema)
    exact = table.filter(wanted)
    found = exact if coarse is None else table.filter(coarse).filter(wanted)
    assert len(found) == len(exact)


@given(tables(), mixed())
def test_a_value_of_another_type_loses_no_row(table: pa.Table, wanted: pc.Expression) -> None:
    try:
        exact = table.filter(wanted)
    except pa.ArrowInvalid:
        return
    schema = base_table_schema(_SCHEMA)
    coarse = arrow_filter(iceberg_filter(wanted, schema), schema)
    found = exact if coarse is None else table.filter(coarse).filter(wanted)
    assert len(found) == len(exact)


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (
            (pc.field("number") > 3) & (pc.field("text") != "x"),
            "GreaterThan(term=Reference(name='number'), literal=LongLiteral(3))",
        ),
        (pc.scalar(3) > pc.field("number"), "LessThan(term=Reference(name='number'), literal=LongLiteral(3))"),
        (pc.field("bytes") == b"x", "EqualTo(term=Reference(name='bytes'), literal=BinaryLiteral(b'x'))"),
        (pc.field("day") <= date(1970, 1, 3), "LessThanOrEqual(term=Reference(name='day'), literal=LongLiteral(2))"),
        ((pc.field("number") > 3) | (pc.field("text") != "x"), "None"),
        (pc.field("a.b") == 1, "None"),
        (pc.field("part", "x") == 1, "None"),
        (pc.field("number") == pa.scalar(None, pa.int64()), "None"),
        (pc.field("number") > Decimal("1.5"), "None"),
        (pc.field("time") < pa.scalar(date(2025, 1, 1)), "None"),
        (pc.field("amount") < Decimal("1.505"), "None"),
        (
            pc.field("amount") < Decimal("1.50"),
            "LessThan(term=Reference(name='amount'), literal=DecimalLiteral(Decimal('1.50')))",
        ),
        (pc.field("ratio").is_null(), "IsNull(term=Reference(name='ratio'))"),
        (pc.field("ratio").is_null(nan_is_null=True), "None"),
    ],
)
def test_what_is_told(wanted: pc.Expression, said: str) -> None:
    assert str(iceberg_filter(wanted, base_table_schema(_SCHEMA))) == said
