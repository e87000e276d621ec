"""Parses SQL text and checks that it only reads. DuckDB's own parser makes the tree.

A query is refused unless each node of its tree only reads, each function is listed, and each table is defined in the
query or asked of the caller. So the check need not know all the ways in which DuckDB can reach files, settings or
other tables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import duckdb

from frazil.errors import QueryError
from frazil.query.sql.allowlist import EXPRESSIONS, FUNCTIONS, OTHER_NODES, TABLE_FUNCTIONS
from frazil.query.sql.error_position import error_at
from frazil.query.sql.limits import MAX_BYTES

Path = tuple[str, ...]
"""This is the name of a table as it is written, with the qualifiers before its dots."""

_SHOWN = frozenset({"DESCRIBE", "SHOW", "SUMMARY"})
_SHOW_TABLES = frozenset({'"tables"', "__show_tables_expanded"})
_OF_DUCKDB = ("duckdb_", "pg_", "pragma_", "sqlite_")
"""The names of DuckDB's own tables begin with these. A query must not define tables with such names."""

_BLANK = r"(?:\s|--[^\n]*(?:\n|$)|/\*.*?\*/)*+"
_EXPLAIN = re.compile(rf"{_BLANK}explain\b(?P<analyze>{_BLANK}analyze\b)?", re.IGNORECASE | re.DOTALL)
_ONLY = (
    "Only queries are answered: one SELECT (also WITH, VALUES, FROM), EXPLAIN, DESCRIBE, SUMMARIZE or SHOW TABLES."
)


@dataclass(frozen=True)
class Statement:
    text: str
    tables: tuple[Path, ...] = ()
    """The statement reads these tables and does not define them."""
    maybe: tuple[Path, ...] = ()
    """The statement reads these names and also defines them, perhaps in another scope."""
    lists_tables: bool = False
    """The statement is `SHOW TABLES`, whose answer is the list of all tables."""


def parse(text: str) -> Statement:
    """Raises `QueryError` when the text is not a query, or asks for more than a query may."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise QueryError("The query is not UTF-8.") from None
    if size > MAX_BYTES:
        raise QueryError(f"The query is longer than {MAX_BYTES:,} bytes.")
    if explained := _EXPLAIN.match(text):
        return _explain(text, explained)
    node = _tree(text)
    source = node.get("from_table") or {}
    if source.get("show_type") == "SHOW_SPECIAL" and source.get("table_name") in _SHOW_TABLES:
        return Statement(text, lists_tables=True)
    tables, defined = _check(node, text)
    reads = dict.fromkeys(tables)
    return Statement(
        text,
        tuple(path for path in reads if not _is_defined(path, defined)),
        tuple(path for path in reads if _is_defined(path, defined)),
    )


def _explain(text: str, words: re.Match[str]) -> Statement:
    """Parses the query after EXPLAIN, because DuckDB makes no tree of EXPLAIN itself."""
    blank = re.sub(r"\S", " ", words[0])
    rest = text[words.end() :]
    if _EXPLAIN.match(rest):
        raise QueryError(_ONLY)
    inner = parse(blank + rest)
    if inner.lists_tables:
        raise QueryError(_ONLY)
    command = "EXPLAIN ANALYZE" if words["analyze"] else "EXPLAIN"
    return replace(inner, text=command + blank[len(command) :] + rest)


def _is_defined(path: Path, defined: set[str]) -> bool:
    return len(path) == 1 and path[0].lower() in defined


def _tree(text: str) -> dict[str, Any]:
    with _database().cursor() as parser:
        serialized = parser.execute("SELECT json_serialize_sql($1)", [text]).fetchall()[0][0]
    try:
        answer = json.loads(serialized)
    except RecursionError:
        raise QueryError("The query is nested too deeply.") from None
    if answer["error"]:
        if answer["error_type"] == "not implemented":
            raise QueryError(_ONLY)
        raise error_at(answer["error_message"], text, answer.get("position"))
    statements = answer["statements"]
    if len(statements) != 1:
        raise QueryError(f"There are {len(statements)} statements; ask them one at a time." if statements else _ONLY)
    if statements[0].get("named_param_map"):
        raise QueryError("The query has parameters; write the values in their places.")
    node: dict[str, Any] = statements[0]["node"]
    return node


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """Returns a database that only parses: no query runs in it."""
    return duckdb.connect(":memory:", config={"autoload_known_extensions": "false"})


def _check(node: dict[str, Any], text: str) -> tuple[list[Path], set[str]]:
    """Returns the tables that are read, and the names that the query defines."""
    tables: list[Path] = []
    defined: set[str] = set()
    as_tables: set[int] = set()
    for each in _parts(node):
        _check_kind(each, text)
        match each:
            case {"type": "BASE_TABLE"} | {"type": "SHOW_REF", "show_type": "SHOW"}:
                tables.append(tuple(each["qualified_name"]["path"]))
            case {"type": "SHOW_REF", "show_type": kind} if kind not in _SHOWN:
                raise QueryError("SHOW can list tables, as a statement of its own: SHOW TABLES.")
            case {"type": "TABLE_FUNCTION", "function": function}:
                as_tables.add(id(function))
            case {"class": "FUNCTION"} | {"class": "WINDOW"}:
                _check_function(each, TABLE_FUNCTIONS if id(each) in as_tables else FUNCTIONS, text)
            case {"key": str(name), "value": {"query_node": _}}:
                if name.lower().startswith(_OF_DUCKDB):
                    raise QueryError(f"WITH {name}: the name is taken; choose another.")
                defined.add(name.lower())
    return tables, defined


def _parts(tree: Any) -> Iterator[dict[str, Any]]:
    """Yields all objects of the tree, the outer ones first."""
    waiting = [tree]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            yield each
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)


def _check_kind(each: dict[str, Any], text: str) -> None:
    if "class" in each:
        kind, allowed = each["class"], EXPRESSIONS
    elif isinstance(each.get("type"), str):
        kind, allowed = each["type"], OTHER_NODES
    else:
        return
    if kind not in allowed:
        shown = str(kind).replace("_QUERY_NODE", "").replace("_", " ")
        raise error_at(f"{shown} is not allowed. {_ONLY}", text, each.get("query_location"))


def _check_function(function: dict[str, Any], allowed: frozenset[str], text: str) -> None:
    name = str(function["function_name"]).lower()
    if name not in allowed:
        listed = f" in FROM; there are {', '.join(sorted(allowed))}" if allowed is TABLE_FUNCTIONS else ""
        raise error_at(f"The function {name} is not available{listed}.", text, function.get("query_location"))
