"""Tests that conditions as text choose the right rows, whatever the types of their values."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.lake.schema.table_schema import base_table_schema
from frazil.scan.where_parser import parse_where

_ROWS = pa.table(
    {
        "id": pa.array([-2, -1, 0, 1, 2, 3, None], pa.int64()),
        "small": pa.array([-2, -1, 0, 1, 2, 3, None], pa.int32()),
        "text": pa.array(["a", "b", "1.5", "c", "d", "e", None]),
    }
)
_SCHEMA = base_table_schema(_ROWS.schema)
_OPERATORS = {
    "<": Decimal.__lt__,
    "<=": Decimal.__le__,
    ">": Decimal.__gt__,
    ">=": Decimal.__ge__,
    "=": Decimal.__eq__,
    "!=": Decimal.__ne__,
}


def chosen(condition: str) -> list[int | None]:
    found: list[int | None] = _ROWS.filter(parse_where(condition, _SCHEMA))["id"].to_pylist()
    return found


@given(
    st.sampled_from(["id", "small"]),
    st.sampled_from(list(_OPERATORS)),
    st.decimals(-3, 4, places=1),
    st.booleans(),
)
def test_whole_numbers_are_compared_with_any_number(column: str, operator: str, value: Decimal, quoted: bool) -> None:
    said = f"'{value}'" if quoted else str(value)
    condition = f"{column} {operator} {said}"
    wanted = [each for each in range(-2, 4) if _OPERATORS[operator](Decimal(each), value)]
    assert chosen(condition) == wanted
    assert chosen(f"not ({condition})") == [each for each in range(-2, 4) if each not in wanted]


@pytest.mark.parametrize(
    ("condition", "wanted"),
    [
        ("id between 0.5 and 2.5", [1, 2]),
        ("id in (0.5, 2.0)", [2]),
        ("id in (0.5, 1.5)", []),
        ("1.5 < id", [2, 3]),
        ("small < 3000000000.5 and id > 1", [2, 3]),
        ("text = '1.5'", [0]),
        ("id is null", [None]),
    ],
)
def test_what_is_written_is_meant(condition: str, wanted: list[int | None]) -> None:
    assert chosen(condition) == wanted


@pytest.mark.parametrize("condition", ["id >", "id > 'x'", "nothing > 1.5", "id"])
def test_what_cannot_be_read_is_an_error(condition: str) -> None:
    with pytest.raises((ValueError, TypeError)):
        parse_where(condition, _SCHEMA)
