"""Tests that a predicate chooses the same rows in Arrow as in plain Python."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import CallError
from frazil.scan.predicates.arrow import mask, to_arrow
from frazil.scan.predicates.simplify import negate_leaves
from frazil.scan.predicates.tree import (
    And,
    Column,
    Comparison,
    Contains,
    In,
    MapValue,
    Matches,
    Not,
    Predicate,
    StartsWith,
)
from tests.scan.predicates.support import SCHEMA, batch_of, holds, predicates, rows


@given(rows(), predicates())
def test_rows_are_those_that_python_chooses(given_rows: list[dict[str, Any]], predicate: Predicate) -> None:
    batch = batch_of(given_rows)
    wanted = [holds(predicate, row) is True for row in given_rows]
    assert mask(predicate, batch).to_pylist() == wanted
    assert mask(negate_leaves(predicate), batch).to_pylist() == wanted


@given(rows(), predicates())
def test_an_expression_knows_what_is_unknown(given_rows: list[dict[str, Any]], predicate: Predicate) -> None:
    batch = pa.table(batch_of(given_rows))
    found = ds.dataset(batch).to_table(columns={"found": to_arrow(predicate, SCHEMA)})["found"]
    assert found.to_pylist() == [holds(predicate, row) for row in given_rows]


@given(rows(max_size=5), predicates(), st.integers(0, 4), st.integers(0, 4))
def test_a_slice_has_its_own_rows(
    given_rows: list[dict[str, Any]], predicate: Predicate, start: int, count: int
) -> None:
    batch = batch_of(given_rows)
    assert mask(predicate, batch.slice(start, count)) == mask(predicate, batch).slice(start, count)


def test_few_rows_are_looked_at_again() -> None:
    batch = pa.record_batch({"n": list(range(1000)), "text": ["even", "odd"] * 500})
    predicate = And(
        (Contains(Column("text"), "odd"), Comparison(Column("n"), "<", 10), Matches(Column("text"), "d$"))
    )
    assert [n for n, found in enumerate(mask(predicate, batch).to_pylist()) if found] == [1, 3, 5, 7, 9]
    nothing = And((Comparison(Column("n"), "<", 0), Contains(Column("n"), "x")))
    with pytest.raises(CallError, match="int64 is not text"):
        mask(nothing, batch)


def test_of_keys_that_are_there_twice_the_first_counts() -> None:
    tags = pa.array([[("k", "a"), ("k", "b")], [("k", "b")]], pa.map_(pa.string(), pa.string()))
    batch = pa.record_batch({"tags": tags})
    predicate = Comparison(MapValue("tags", "k"), "==", "b")
    assert mask(predicate, batch).to_pylist() == [False, True]
    assert pa.table(batch).filter(to_arrow(predicate, batch.schema))["tags"].to_pylist() == [[("k", "b")]]


def test_nothing_is_equal_to_a_number_that_is_none() -> None:
    batch = pa.record_batch({"n": [1, None], "f": [math.nan, None]})
    for column in ("n", "f"):
        term = Column(column)
        assert mask(Comparison(term, "==", math.nan), batch).to_pylist() == [False, False]
        assert mask(Comparison(term, "!=", math.nan), batch).to_pylist() == [True, False]
        assert mask(In(term, frozenset((math.nan,))), batch).to_pylist() == [False, False]
        assert mask(Not(In(term, frozenset((math.nan,)))), batch).to_pylist() == [True, False]


def test_all_digits_of_nanoseconds_count() -> None:
    batch = pa.record_batch({"t": pa.array([1, 2, 3], pa.timestamp("ns", "UTC"))})
    assert mask(Comparison(Column("t"), ">", "1970-01-01T00:00:00.000000001Z"), batch).to_pylist() == [0, 1, 1]
    assert mask(Comparison(Column("t"), ">=", datetime(1970, 1, 1, tzinfo=UTC)), batch).to_pylist() == [1, 1, 1]
    seconds = pa.record_batch({"t": pa.array([0, 1], pa.timestamp("s"))})
    assert mask(Comparison(Column("t"), ">", "1970-01-01T00:00:00.5"), seconds).to_pylist() == [0, 1]


@pytest.mark.parametrize(
    ("predicate", "said"),
    [
        (Comparison(Column("nmber"), "==", 1), "no column 'nmber'.*number"),
        (Comparison(Column("part.z"), "==", 1), "no field 'z'"),
        (Comparison(Column("number"), "==", "x"), "number = 'x': 'x' is not a number"),
        (Comparison(Column("text"), "==", 1), "1 cannot be compared with string"),
        (Comparison(Column("number"), "==", True), "True cannot be compared with int64"),
        (Comparison(Column("ratio"), "==", b"x"), "cannot be compared with double"),
        (Comparison(Column("part"), "==", 1), "cannot be compared with struct"),
        (Comparison(Column("tags"), "==", "k"), "cannot be compared with map"),
        (Comparison(Column("day"), "==", "yesterday"), "yesterday"),
        (Comparison(Column("moment"), "==", datetime.fromisoformat("2024-01-01")), "has no time zone"),
        (Comparison(Column("plain"), "==", datetime(2024, 1, 1, tzinfo=UTC)), "has a time zone"),
        (Comparison(Column("amount"), "==", b"1"), "cannot be compared with decimal128"),
        (In(Column("flag"), frozenset(("perhaps",))), "cannot be compared with bool"),
        (StartsWith(Column("bytes"), "x"), "binary is not text"),
        (Matches(Column("text"), "("), "not a regular expression that RE2 can read"),
        (Matches(Column("text"), "a)(b", anchored=True), "not a regular expression that RE2 can read"),
        (Comparison(MapValue("text", "k"), "==", "x"), "no values under keys"),
        (Comparison(Column("number"), "==", Decimal("sNaN")), "sNaN"),
    ],
)
def test_what_makes_no_sense_is_told(predicate: Predicate, said: str) -> None:
    with pytest.raises(CallError, match=said):
        to_arrow(predicate, SCHEMA)
    with pytest.raises(CallError, match=said):
        mask(predicate, batch_of([dict.fromkeys(SCHEMA.names)]))
