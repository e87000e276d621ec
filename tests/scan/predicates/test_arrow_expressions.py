"""Tests that predicates made of Arrow expressions choose the rows that the expressions choose."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given

from frazil.errors import CallError
from frazil.scan.predicates.arrow import mask, to_arrow
from frazil.scan.predicates.arrow_expressions import columns_in, from_arrow
from frazil.scan.predicates.printing import to_text
from frazil.scan.predicates.text import parse_where
from frazil.scan.predicates.tree import Predicate
from tests.scan.predicates.support import SCHEMA, batch_of, predicates, rows

_F: Callable[..., pc.Expression] = pc.field


def chosen(expression: pc.Expression, given_rows: list[dict[str, Any]]) -> list[int]:
    """Returns the rows that are chosen by what an expression becomes."""
    batch = batch_of(given_rows).append_column("row", pa.array(range(len(given_rows))))
    predicate, rest, columns = from_arrow(expression, SCHEMA)
    found = pa.table(batch if predicate is None else batch.filter(mask(predicate, batch)))
    if rest is not None:
        found = found.select([*columns, "row"]).filter(rest)
    numbers: list[int] = found["row"].to_pylist()
    return numbers


@given(rows(), predicates())
def test_the_same_rows_are_chosen(given_rows: list[dict[str, Any]], predicate: Predicate) -> None:
    expression = to_arrow(predicate, SCHEMA)
    batch = pa.table(batch_of(given_rows)).append_column("row", pa.array(range(len(given_rows))))
    assert chosen(expression, given_rows) == batch.filter(expression)["row"].to_pylist()


@pytest.mark.parametrize(
    ("expression", "condition"),
    [
        (_F("number") > 3, "number > 3"),
        (pc.scalar(3) < _F("small"), "small > 3"),
        (_F("number").isin([1, 2]), "number in (1, 2)"),
        (~_F("number").isin([1, 2]), "number not in (1, 2)"),
        (
            pc.if_else(_F("number").is_valid(), _F("number").isin([1, 2]), pa.scalar(None, pa.bool_())),
            "number in (1, 2)",
        ),
        (_F("text").is_null(), "text is null"),
        (_F("text").is_valid(), "text is not null"),
        (_F("tags").is_null(), "tags is null"),
        (pc.starts_with(_F("text"), "x"), "text starts with 'x'"),
        (pc.match_substring(_F("text"), "x"), "text contains 'x'"),
        (pc.match_substring(_F("text"), "x", ignore_case=True), "text contains 'x' ignoring case"),
        (_F("part", "x") == 1, "part.x = 1"),
        (_F("a.b") == 1, "a.b = 1"),
        (_F("ratio") < 1.5, "ratio < double '1.5'"),
        (_F("amount") == Decimal("-1.5"), "amount = -1.50"),
        (_F("bytes") == b"x", "bytes = x'78'"),
        (_F("flag"), "flag = true"),
        (_F("day") > date(2024, 1, 1), "day > date '2024-01-01'"),
        (_F("clock") > time(12, 30), "clock > time '12:30'"),
        (_F("moment") > datetime(2024, 1, 1, tzinfo=UTC), "moment > timestamp '2024-01-01T00:00:00Z'"),
        (_F("plain") > datetime.fromisoformat("2024-01-01"), "plain > timestamp '2024-01-01'"),
        (pc.scalar(True), "true"),
        ((_F("number") > 1) & (_F("text") == "x") | (_F("number") < 1), "(number > 1 and text = 'x') or number < 1"),
    ],
)
def test_what_becomes_a_predicate(expression: pc.Expression, condition: str) -> None:
    predicate, rest, _ = from_arrow(expression, SCHEMA)
    assert rest is None
    assert predicate is not None
    assert to_text(predicate) == to_text(parse_where(condition))


_OTHERS = [
    (_F("a.b") > 1.5, ("a.b",)),
    (_F("number").isin(pa.array([1, None])), ("number",)),
    (_F("ratio").isin([float("nan"), 1.5]), ("ratio",)),
    (_F("ratio").is_null(nan_is_null=True), ("ratio",)),
    (pc.starts_with(_F("text"), "A", ignore_case=True), ("text",)),
    (pc.match_substring_regex(_F("text"), "^a"), ("text",)),
    (_F("number") == pa.scalar(None, pa.int64()), ("number",)),
    (_F("a.b") * 2 > _F("small"), ("small", "a.b")),
    (_F("service") == "a", ("service",)),
    (pc.xor(_F("flag"), _F("part", "x") == 1), ("flag", "part")),
    (_F("moment") > pa.scalar(2**60, pa.timestamp("us", "UTC")), ("moment",)),
    (_F("text") == "FieldRef", ("text",)),
]


@pytest.mark.parametrize(("expression", "columns"), _OTHERS, ids=lambda case: str(case)[:30])
@given(given_rows=rows())
def test_what_does_not_is_applied_as_it_is(
    expression: pc.Expression, columns: tuple[str, ...], given_rows: list[dict[str, Any]]
) -> None:
    assert from_arrow(expression, SCHEMA).columns == columns
    batch = pa.table(batch_of(given_rows)).append_column("row", pa.array(range(len(given_rows))))
    assert chosen(expression, given_rows) == batch.filter(expression)["row"].to_pylist()


def test_parts_that_can_be_translated_are() -> None:
    predicate, rest, columns = from_arrow((_F("number") > 1) & pc.is_nan(_F("ratio")), SCHEMA)
    assert predicate is not None
    assert to_text(predicate) == "number > 1"
    assert rest is not None
    assert columns == ("number", "ratio")


@pytest.mark.parametrize("count", [3, 12, 300])
def test_an_expression_of_any_depth_is_applied(count: int) -> None:
    expression = _F("number") == 0
    for value in range(1, count):
        expression |= (_F("number") == 2 * value) & (_F("text") != ")")
    rows_of = [{**dict.fromkeys(SCHEMA.names), "number": value, "text": "x"} for value in range(2 * count)]
    assert chosen(expression, rows_of) == list(range(0, 2 * count, 2))


@pytest.mark.parametrize(
    ("expression", "said"),
    [
        (_F("nmber") > 1, "there is no column 'nmber'.*number"),
        (_F("number") == "x", 'number == "x"'),
        (pc.match_substring_regex(pc.field(5), "x"), "by position"),
        (pc.match_substring_regex(_F("number"), "x"), "no kernel"),
    ],
)
def test_what_makes_no_sense_is_told(expression: pc.Expression, said: str) -> None:
    with pytest.raises(CallError, match=said):
        from_arrow(expression, SCHEMA)


def test_columns_of_any_expression_are_found() -> None:
    assert columns_in(pc.match_substring_regex(_F("text"), "x") & (_F("part", "x") > 1), SCHEMA) == ("text", "part")
    assert columns_in(pc.scalar(True), SCHEMA) == ()
