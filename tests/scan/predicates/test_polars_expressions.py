"""Tests that what Polars pushes down chooses the rows that Polars would choose."""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given

from frazil.scan.predicates.arrow import mask
from frazil.scan.predicates.polars_expressions import from_polars
from tests.scan.predicates.support import batch_of, rows

_FLAT = ["number", "small", "ratio", "text", "flag", "day", "moment", "plain", "a.b"]
_C = pl.col
_PUSHED = [
    _C("number") > 1,
    pl.lit(1) > _C("small"),
    (_C("text") == "a") | ~(_C("text") < "b"),
    _C("text").str.starts_with("a") & _C("number").is_not_null(),
    _C("text").str.contains("b'", literal=True),
    _C("flag") == True,  # noqa: E712
    _C("number").is_between(-1, 2),
    _C("day") >= date(1970, 1, 1),
    _C("moment") < datetime(2024, 3, 1, tzinfo=UTC),
    _C("plain") < datetime.fromisoformat("2024-03-01"),
    _C("a.b").is_null() | (_C("a.b") != 0),
]
_LEFT = [
    _C("ratio") > 1.0,
    _C("text").str.contains("^a"),
    _C("number") + 1 > _C("small"),
    _C("number").is_in([1, 2]),
    _C("number").map_elements(bool, return_dtype=pl.Boolean),
    _C("text").eq_missing("a"),
]


def check_rows(expression: pl.Expr, given_rows: list[dict[str, Any]]) -> tuple[bool, bool]:
    """Returns whether there is a predicate, and whether there is a rest."""
    batch = batch_of(given_rows).select(_FLAT)
    predicate, rest = from_polars(expression, batch.schema)
    found = batch if predicate is None else batch.filter(mask(predicate, batch))
    frame = pl.DataFrame(pa.Table.from_batches([found]))
    frame = frame if rest is None else frame.filter(rest)
    whole = pl.DataFrame(pa.Table.from_batches([batch])).filter(expression)
    assert frame.equals(whole)
    return predicate is not None, rest is not None


@pytest.mark.parametrize("expression", _PUSHED, ids=str)
@given(given_rows=rows())
def test_what_is_pushed_down(expression: pl.Expr, given_rows: list[dict[str, Any]]) -> None:
    assert check_rows(expression, given_rows) == (True, False)


@pytest.mark.parametrize("expression", _LEFT, ids=str)
@given(given_rows=rows())
def test_what_is_left_to_polars(expression: pl.Expr, given_rows: list[dict[str, Any]]) -> None:
    assert check_rows(expression, given_rows) == (False, True)
    # Polars cannot write an expression with a function in Python at all.
    pushed = "python_udf" not in str(expression)
    assert check_rows((_C("number") > 1) & expression, given_rows) == (pushed, True)
