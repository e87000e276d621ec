"""Tests that nothing with wanted rows is left out by statistics, and that what they rule out is."""

from __future__ import annotations

import math
from datetime import date
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow.types import is_dictionary, is_floating, is_map, is_struct

from frazil.errors import CallError
from frazil.scan.predicates.arrow import mask
from frazil.scan.predicates.statistics import ColumnStatistics, may_match
from frazil.scan.predicates.text import parse_where
from frazil.scan.predicates.tree import Predicate
from tests.scan.predicates.support import SCHEMA, batch_of, predicates, rows


def bounds_of(values: pa.Array) -> tuple[Any, Any]:
    """Returns bounds as Parquet has them: no NaN, and long text may be cut."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if is_dictionary(values.type):
        values = values.dictionary_decode()
    values = values.drop_null()
    if is_floating(values.type):
        values = values.filter(pc.invert(pc.is_nan(values)))
    if not len(values):
        return None, None
    ordered = values.take(pc.sort_indices(values.cast(pa.binary()) if values.type == pa.binary(2) else values))
    least, most = ordered[0].as_py(), ordered[-1].as_py()
    if isinstance(most, str):
        return least[:2], most if len(most) < 3 else most[:2] + "\U0010ffff"
    return least, most


def statistics_of(parts: list[pa.RecordBatch], name: str, *, counts: bool, bounds: bool) -> ColumnStatistics:
    column, _, field = name.partition(".") if name.startswith("part.") else (name, "", "")
    values = [part.column(column) for part in parts]
    if field:
        values = [pc.struct_field(each, [each.type.get_field_index(field)]) for each in values]
    kind = values[0].type
    plain = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    plain = plain.value_type if is_dictionary(plain) else plain
    nulls = pa.array([each.null_count for each in values], pa.int64()) if counts else None
    total = pa.array([len(each) for each in values], pa.int64()) if counts else None
    if not bounds or is_map(kind) or is_struct(kind):
        return ColumnStatistics(None, None, nulls, total)
    found = [bounds_of(each) for each in values]
    lower, upper = (pa.array([each[side] for each in found], plain) for side in (0, 1))
    return ColumnStatistics(lower, upper, nulls, total)


@given(st.lists(rows(max_size=3), min_size=1, max_size=4), predicates(), st.booleans(), st.booleans())
def test_no_part_with_wanted_rows_is_left_out(
    given_parts: list[list[dict[str, Any]]], predicate: Predicate, counts: bool, bounds: bool
) -> None:
    parts = [batch_of(each) for each in given_parts]
    names = [*SCHEMA.names, "part.x", "part.y"]
    known = {name: statistics_of(parts, name, counts=counts, bounds=bounds) for name in names}
    wanted = np.array([mask(predicate, part).true_count > 0 for part in parts])
    found = may_match(predicate, SCHEMA, known, len(parts))
    assert not (wanted & ~found).any()


_KNOWN = {
    "number": ColumnStatistics(
        pa.array([1, 5, None, None, 7], pa.int64()),
        pa.array([3, 5, None, None, 9], pa.int64()),
        pa.array([0, 0, 2, None, 1], pa.int64()),
        pa.array([2, 2, 2, 2, 2], pa.int64()),
    ),
    "text": ColumnStatistics(pa.array(["aa", "b", "b", None, "ba"]), pa.array(["ab", "bz", "d", None, "bz"])),
    "ratio": ColumnStatistics(pa.array([-math.inf, 0, 1, 1, 1.0]), pa.array([0, math.inf, 1, 2, 3.0])),
    "share": ColumnStatistics(
        pa.array([-math.inf, 0.1, 1, 1, math.nan], pa.float32()),
        pa.array([0, math.inf, 1, 2, math.nan], pa.float32()),
    ),
    "tags": ColumnStatistics(None, None, pa.array([2, 0, None, 1, 1]), pa.array([2, 2, 2, 2, 2])),
}


@pytest.mark.parametrize(
    ("condition", "found"),
    [
        ("number = 5", [0, 1, 0, 1, 0]),
        ("number != 5", [1, 0, 0, 1, 1]),
        ("not (number != 5)", [0, 1, 0, 1, 0]),
        ("number > 3", [0, 1, 0, 1, 1]),
        ("not (number > 3)", [1, 0, 0, 1, 0]),
        ("number > 2.5", [1, 1, 0, 1, 1]),
        ("number < 1e30", [1, 1, 0, 1, 1]),
        ("number > 1e30", [0, 0, 0, 0, 0]),
        ("number is null", [0, 0, 1, 1, 1]),
        ("number is not null", [1, 1, 0, 1, 1]),
        ("number in (0, 4, 8)", [0, 0, 0, 1, 1]),
        ("number in ()", [0, 0, 0, 0, 0]),
        ("number not in (0, 5)", [1, 0, 0, 1, 1]),
        (f"number in ({', '.join(map(str, range(10, 999)))})", [0, 0, 0, 1, 0]),
        ("number = 5 or text starts with 'c'", [0, 1, 1, 1, 0]),
        ("number = 5 and text starts with 'c'", [0, 0, 0, 1, 0]),
        ("text starts with 'b'", [0, 1, 1, 1, 1]),
        ("text not starts with 'b'", [1, 0, 1, 1, 0]),
        ("text starts with ''", [1, 1, 1, 1, 1]),
        ("text contains 'x'", [1, 1, 1, 1, 1]),
        ("ratio > 1", [0, 1, 0, 1, 1]),
        ("not (ratio > 1)", [1, 1, 1, 1, 1]),
        ("ratio != 1", [1, 1, 1, 1, 1]),
        ("ratio = double 'inf'", [0, 1, 0, 0, 0]),
        ("share = double 'inf'", [0, 1, 0, 0, 1]),
        ("share < double '-1e300'", [1, 0, 0, 0, 1]),
        ("share = 0.1", [0, 1, 0, 0, 1]),
        ("share = double '0.1'", [0, 0, 0, 0, 1]),
        ("tags['k'] = 'v'", [0, 1, 1, 1, 1]),
        ("tags['k'] is null", [1, 1, 1, 1, 1]),
        ("day > date '2024-01-01'", [1, 1, 1, 1, 1]),
        ("true", [1, 1, 1, 1, 1]),
        ("false", [0, 0, 0, 0, 0]),
    ],
)
def test_what_is_ruled_out(condition: str, found: list[int]) -> None:
    assert may_match(parse_where(condition), SCHEMA, _KNOWN, 5).tolist() == [bool(each) for each in found]


def test_bounds_of_an_older_type_are_used() -> None:
    known = {
        "number": ColumnStatistics(pa.array([1], pa.int32()), pa.array([3], pa.int32())),
        "ratio": ColumnStatistics(pa.array([1], pa.float32()), pa.array([3], pa.float32())),
        "amount": ColumnStatistics(pa.array([1], pa.decimal128(5, 2)), pa.array([3], pa.decimal128(5, 2))),
    }
    for column in known:
        assert not may_match(parse_where(f"{column} = 4"), SCHEMA, known, 1).any()
        assert may_match(parse_where(f"{column} = 2"), SCHEMA, known, 1).all()


@pytest.mark.parametrize(
    "bounds",
    [pa.array(["x"]), pa.array([b"x"]), pa.array([date(2024, 1, 1)]), pa.array([[1]]), pa.array([2**70 // 1.0])],
)
def test_bounds_that_cannot_be_of_the_type_are_unknown(bounds: pa.Array) -> None:
    known = {name: ColumnStatistics(bounds, bounds) for name in SCHEMA.names}
    for condition in ("number = 2", "small < 0", "moment > 0", "amount = 3", "flag = true"):
        assert may_match(parse_where(condition), SCHEMA, known, 1).dtype == np.bool_


def test_what_makes_no_sense_is_told() -> None:
    with pytest.raises(CallError, match="no column 'nowhere'"):
        may_match(parse_where("false and nowhere = 1"), SCHEMA, {}, 0)
