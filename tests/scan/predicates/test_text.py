"""Tests that conditions as text choose the right rows, whatever the types of their values, and can be printed."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import CallError
from frazil.scan.predicates.arrow import mask
from frazil.scan.predicates.printing import to_text
from frazil.scan.predicates.text import parse_where
from frazil.scan.predicates.tree import (
    And,
    Column,
    Comparison,
    Contains,
    In,
    IsNull,
    MapValue,
    Matches,
    Not,
    Or,
    Predicate,
    StartsWith,
)
from tests.scan.predicates.support import predicates

_ROWS = pa.record_batch(
    {
        "id": pa.array([-2, -1, 0, 1, 2, 3, None], pa.int64()),
        "small": pa.array([-2, -1, 0, 1, 2, 3, None], pa.int32()),
        "text": pa.array(["a", "b", "1.5", "c", "d", "e", None]),
        "number": pa.array([0.0, float("nan"), 1.0, 2.0, 3.0, 4.0, None]),
    }
)
_OPERATORS = {
    "<": Decimal.__lt__,
    "<=": Decimal.__le__,
    ">": Decimal.__gt__,
    ">=": Decimal.__ge__,
    "=": Decimal.__eq__,
    "!=": Decimal.__ne__,
}


def chosen(condition: str) -> list[int | None]:
    found: list[int | None] = _ROWS.filter(mask(parse_where(condition), _ROWS))["id"].to_pylist()
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
        ("id not between 0 and 2", [-2, -1, 3]),
        ("id in (0.5, 2.0)", [2]),
        ("id in (0.5, 1.5)", []),
        ("id in ()", []),
        ("id not in (1, 2)", [-2, -1, 0, 3]),
        ("1.5 < id", [2, 3]),
        ("small < 3000000000.5 and id > 1", [2, 3]),
        ("text = '1.5'", [0]),
        ("id is null", [None]),
        ("ID IS NULL OR TRUE".replace("ID", "id"), [-2, -1, 0, 1, 2, 3, None]),
        ("number is nan", [-1]),
        ("number is not nan", [-2, 0, 1, 2, 3]),
        ("id >= 1 or id < -1 and text != 'a'", [1, 2, 3]),
        ("id=-1", [-1]),
    ],
)
def test_what_is_written_is_meant(condition: str, wanted: list[int | None]) -> None:
    assert chosen(condition) == wanted


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a like 'x%'", StartsWith(Column("a"), "x")),
        (r"a like '5\%'", Comparison(Column("a"), "==", "5%")),
        ("a not like 'x%'", Not(StartsWith(Column("a"), "x"))),
        ("a starts with 'it''s'", StartsWith(Column("a"), "it's")),
        ("a contains 'x'", Contains(Column("a"), "x")),
        ("a contains 'x' ignoring case", Contains(Column("a"), "x", ignore_case=True)),
        ("a matches 'x.*'", Matches(Column("a"), "x.*")),
        ("a fully matches 'x.*'", Matches(Column("a"), "x.*", anchored=True)),
        ("tags['k'] = 'v'", Comparison(MapValue("tags", "k"), "==", "v")),
        ("part.x is null", IsNull(Column("part.x"))),
        ('"select ""it""".y is not null', Not(IsNull(Column('select "it".y')))),
        ("timestamp > 1", Comparison(Column("timestamp"), ">", 1)),
        ("timestamp '2024-01-01T00:00:00Z' < t", Comparison(Column("t"), ">", datetime(2024, 1, 1, tzinfo=UTC))),
        ("d = date '2024-01-01'", Comparison(Column("d"), "==", date(2024, 1, 1))),
        ("t = time '12:30:00'", Comparison(Column("t"), "==", time(12, 30))),
        ("b = x'00ff'", Comparison(Column("b"), "==", b"\x00\xff")),
        ("f in (double '1.5', 1.5e0)", In(Column("f"), frozenset((1.5, Decimal("1.5"))))),
        ("flag = true and (true or false)", And((Comparison(Column("flag"), "==", True), Or((And(()), Or(())))))),
    ],
)
def test_what_can_be_written(text: str, meant: Predicate) -> None:
    assert parse_where(text) == meant


@given(predicates())
def test_what_is_printed_can_be_read(predicate: Predicate) -> None:
    text = to_text(predicate)
    again = parse_where(text)
    # NaN is not equal to itself.
    assert again == predicate or "'nan'" in text
    assert to_text(again) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("id >", "expected a value at the end"),
        ("id", "expected a comparison, is, in.*at the end"),
        ("id = 1 id", "expected and, or, or the end at character 8, 'id'"),
        ("id = ?", "at character 5"),
        ("id = null", "expected a value at character 6"),
        ("id = 'x", "at character 5"),
        ("(id = 1", r"expected \) at the end"),
        ("a like '%x'", "at the end only"),
        ("a contains 1", "expected text in single quotes at character 12"),
        ("d = date 'yesterday'", "expected a date at character 10"),
        ("and = 1", "expected a column at character 1"),
        ("tags[1] = 1", "expected text in single quotes"),
        ("", "expected a column at the end"),
        ("(" * 5000, "fewer than 100 parentheses"),
        ("not " * 5000, "fewer than 100 parentheses"),
    ],
)
def test_what_cannot_be_read_is_an_error(text: str, said: str) -> None:
    with pytest.raises(CallError, match=said):
        parse_where(text)
