"""Defines the tokens of LogQL, and the errors that name a place in a query."""

from __future__ import annotations

from dataclasses import dataclass

from frazil.errors import QueryError

IDENTIFIER = "IDENTIFIER"
STRING = "STRING"
NUMBER = "NUMBER"
DURATION = "DURATION"
BYTES = "BYTES"
RANGE = "RANGE"
FLAG = "FUNCTION_FLAG"
END = "$end"
UNKNOWN = "unknown"
"""A sign that means nothing in LogQL; messages call it an identifier, as those of Loki do."""

KEYWORDS = frozenset(
    [
        "by",
        "without",
        "bool",
        "unwrap",
        "offset",
        "on",
        "ignoring",
        "group_left",
        "group_right",
        "or",
        "and",
        "unless",
        "json",
        "regexp",
        "logfmt",
        "unpack",
        "pattern",
        "label_format",
        "line_format",
        "decolorize",
        "drop",
        "keep",
        "variants",
        "of",
    ]
)
"""These cannot be names of labels, in letters of any case."""

RANGE_OPERATIONS = frozenset(
    [
        "count_over_time",
        "rate",
        "rate_counter",
        "bytes_over_time",
        "bytes_rate",
        "avg_over_time",
        "sum_over_time",
        "min_over_time",
        "max_over_time",
        "stdvar_over_time",
        "stddev_over_time",
        "quantile_over_time",
        "first_over_time",
        "last_over_time",
        "absent_over_time",
    ]
)
VECTOR_OPERATIONS = frozenset(
    ["sum", "avg", "min", "max", "count", "stddev", "stdvar", "topk", "bottomk", "approx_topk", "sort", "sort_desc"]
)
CONVERSIONS = frozenset(("bytes", "duration", "duration_seconds"))
FUNCTIONS = RANGE_OPERATIONS | VECTOR_OPERATIONS | CONVERSIONS | {"vector", "label_replace", "ip"}
"""These are names of labels too, unless a parenthesis follows."""

LOWER_CASE = CONVERSIONS | {"ip"}
"""Messages spell these functions as they are written, and all others in capitals."""


@dataclass(frozen=True)
class Token:
    kind: str
    """One of the kinds above, a function's name in capitals, or the keyword or operator itself."""
    text: str
    line: int
    column: int
    value: int = 0
    """Of a duration in nanoseconds, of a size in bytes."""
    line_shown: bool = True
    """Messages of Loki have line 0 for tokens that are more than a word, a number or one sign."""

    def error(self, message: str) -> QueryError:
        return error_at(message, self.line, self.column, line_shown=self.line_shown)


def error_at(message: str, line: int, column: int, *, line_shown: bool = True) -> QueryError:
    return QueryError(f"parse error at line {line if line_shown else 0}, col {column}: {message}", line, column)


def error(message: str) -> QueryError:
    """Makes an error that has no place of its own, such as one found when the whole query had been read."""
    return QueryError(f"parse error : {message}")
