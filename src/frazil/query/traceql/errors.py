"""Defines how a query is refused: its text, its meaning, or a part of the language that nobody has."""

from __future__ import annotations

from frazil.errors import QueryError


class TraceQLError(QueryError):
    """Raised when a TraceQL query cannot be answered as it stands."""


class TraceQLSyntaxError(TraceQLError):
    """Raised when a text is no TraceQL. The line and the column say where."""


class TraceQLInvalid(TraceQLError):
    """Raised when a query can be read, but its types or its limits are wrong."""


class TraceQLUnsupported(TraceQLError):
    """Raised when a query can be read, and uses what neither Tempo nor Frazil answers."""

    def __init__(self, feature: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(f"{feature} not yet supported", line, column)


def syntax_error(message: str, text: str, offset: int) -> TraceQLSyntaxError:
    """Returns an error that names line and column of the offset, both counted from 1."""
    if not text:
        return TraceQLSyntaxError(f"parse error : {message}")
    line = text.count("\n", 0, offset) + 1
    column = offset - (text.rfind("\n", 0, offset) + 1) + 1
    return TraceQLSyntaxError(f"parse error at line {line}, col {column}: {message}", line, column)
