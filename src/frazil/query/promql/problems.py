"""Defines what can be wrong with a query, in the words of Prometheus where clients look at them."""

from __future__ import annotations

from typing import Self

from frazil.errors import QueryError, QueryTooLarge


class ParseError(QueryError):
    """Raised when a text is no PromQL. `str()` has line and column in front, as Prometheus prints them."""

    def __init__(self, message: str, line: int | None = None, column: int | None = None) -> None:
        super().__init__(message, line, column)
        self.message = message

    def __str__(self) -> str:
        if self.line is None:
            return f"unknown position: parse error: {self.message}"
        return f"{self.line}:{self.column}: parse error: {self.message}"


class InvalidQuery(QueryError):
    """Raised when a query cannot be asked like this: over this range, with these steps."""


class DurationError(QueryError):
    """Raised when a duration that a query computes cannot be one. It has byte offsets, as in Prometheus."""

    def __init__(self, message: str, start: int = 0, end: int = 0) -> None:
        super().__init__(message)
        self.start, self.end = start, end

    def __str__(self) -> str:
        return f"{self.start}:{self.end}: {self.args[0]}"

    def again(self) -> Self:
        return type(self)(self.args[0], self.start, self.end)


class ExecutionError(QueryError):
    """Raised when a query is well formed and its data, or a value it computes, does not allow an answer."""


class TooManySamples(ExecutionError, QueryTooLarge):
    """Raised when a query would hold more samples, series or steps than it may."""
