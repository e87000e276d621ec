"""Tests what is a query, and what is refused before anything runs."""

from __future__ import annotations

import re
from pathlib import Path

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frazil.errors import QueryError
from frazil.query.sql.allowlist import FUNCTIONS, TABLE_FUNCTIONS
from frazil.query.sql.limits import MAX_BYTES
from frazil.query.sql.parse import parse

HERE = Path(__file__).parent


def lines(name: str) -> list[str]:
    return [line for line in (HERE / name).read_text().splitlines() if line and not line.startswith("# ")]


ACCEPTED = [tuple(line.split("⟶")) for line in lines("accepted.txt")]
REFUSED = ["", ";", "--", "-- only a comment", *lines("refused.txt")]


@pytest.mark.parametrize(("text", "tables"), ACCEPTED)
def test_queries_are_read_and_their_tables_found(text: str, tables: str) -> None:
    found = parse(text.replace("\\n", "\n")).tables
    assert sorted(".".join(path) for path in found) == tables.split()


@pytest.mark.parametrize("text", ["SHOW TABLES", "show tables;", "SHOW ALL TABLES"])
def test_tables_can_be_listed(text: str) -> None:
    assert parse(text).lists_tables


@pytest.mark.parametrize("text", REFUSED)
def test_everything_else_is_refused(text: str) -> None:
    with pytest.raises(QueryError):
        parse(text)


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("FROM '/etc/passwd'", "/etc/passwd"),
        ("FROM 'https://example.com/x.parquet'", "https://example.com/x.parquet"),
        ("FROM sqlite_master", "sqlite_master"),
        ("FROM information_schema.tables", "information_schema.tables"),
        ("FROM pg_catalog.pg_settings", "pg_catalog.pg_settings"),
        ("FROM duckdb_settings", "duckdb_settings"),
        ("FROM temp.main.x", "temp.main.x"),
        ("FROM __topic_0", "__topic_0"),
        ("SHOW sqlite_master", "sqlite_master"),
        ("FROM rows", "rows"),
    ],
)
def test_files_and_tables_of_duckdb_are_but_names_of_tables(text: str, tables: str) -> None:
    """The code that resolves the names of tables knows topics only."""
    assert [".".join(path) for path in parse(text).tables] == [tables]


def test_errors_say_where_they_are() -> None:
    with pytest.raises(QueryError) as raised:
        parse("SELECT 'ä',\n  current_setting('x')")
    assert (raised.value.line, raised.value.column) == (2, 3)
    assert str(raised.value) == (
        "line 2, column 3: The function current_setting is not available.\n    current_setting('x')\n    ^"
    )
    with pytest.raises(QueryError, match='line 1, column 17: syntax error at or near "t"'):
        parse("SELECT 'ä' FORM t")


@pytest.mark.parametrize(("opened", "closed"), ["()", "[]", ("(SELECT ", ")"), ("NOT ", ""), ("FROM (", ")")])
def test_deep_nesting_is_an_error_and_not_the_end(opened: str, closed: str) -> None:
    levels = (MAX_BYTES - 100) // len(opened + closed)
    with pytest.raises(QueryError):
        parse(f"SELECT {opened * levels}1{closed * levels}")


def test_long_texts_and_odd_characters_are_errors() -> None:
    for text in (
        "SELECT '" + "x" * MAX_BYTES + "'",
        "SELECT '\udc80'",
        "\x00",
        "SELECT 1\x00; DROP TABLE t",
        "EXPLAIN " * 9999,
    ):
        with pytest.raises(QueryError):
            parse(text)


def test_comments_before_a_query_take_no_time() -> None:
    """A pattern that backtracks over them would take years."""
    comments = "/**/ -- x\n" * 500
    assert parse(f"{comments}SELECT 1").text.endswith("SELECT 1")
    assert parse(f"{comments}EXPLAIN{comments}ANALYZE{comments}SELECT 1").text.startswith("EXPLAIN ANALYZE ")


@given(
    st.text(max_size=60)
    | st.lists(st.sampled_from(re.findall(r"\w+|\W", " ".join(REFUSED))), max_size=30).map("".join)
)
def test_no_text_gets_through_but_queries(text: str) -> None:
    """Whatever is accepted is one statement that DuckDB itself calls a query."""
    try:
        statement = parse(text)
    except QueryError:
        return
    with duckdb.connect() as connection:
        (only,) = connection.extract_statements(statement.text)
        assert only.type in (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN)


def test_all_listed_functions_exist() -> None:
    """A name that DuckDB does not know would be a mistake in the list."""
    with duckdb.connect() as connection:
        known = connection.execute(
            "SELECT DISTINCT lower(function_name), function_type FROM duckdb_functions()"
        ).fetchall()
    names = {name for name, _ in known}
    made_by_the_parser = {"->", "unnest"}
    assert FUNCTIONS - names <= made_by_the_parser
    assert TABLE_FUNCTIONS - names <= made_by_the_parser
