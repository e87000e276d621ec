"""Makes errors that show where in the text of a query something is wrong."""

from __future__ import annotations

import json
from typing import Any

from frazil.errors import QueryError

_WIDTH = 100


def error_of(message: str, text: str) -> QueryError:
    """Makes an error from DuckDB's message, which has JSON after the kind of the error if it knows details."""
    _, start, rest = message.partition(": {")
    try:
        details = json.loads(f"{{{rest}") if start else {}
        return error_at(details["exception_message"], text, details.get("position"))
    except (ValueError, KeyError):
        return QueryError(message.partition("\n\nLINE ")[0])


def error_at(reason: str, text: str, position: Any) -> QueryError:
    """Makes an error that shows the line at `position`, DuckDB's byte offset. An invalid position is ignored."""
    data = text.encode()
    try:
        at = int(position)
    except (TypeError, ValueError):
        return QueryError(reason)
    if not 0 <= at <= len(data):
        return QueryError(reason)
    before = data[:at].decode(errors="ignore")
    line = before.count("\n") + 1
    column = len(before) - before.rfind("\n")
    shown = text.splitlines()[line - 1] if before or text.strip() else ""
    start = max(0, column - 1 - _WIDTH // 2)
    snippet = shown[start : start + _WIDTH].replace("\t", " ")
    caret = " " * (column - 1 - start) + "^"
    return QueryError(f"line {line}, column {column}: {reason}\n  {snippet}\n  {caret}", line=line, column=column)
