"""Matches regular expressions as Prometheus does: RE2, over the whole value, a dot is any character."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from frazil.ops.short_texts import remember_short

# What RE2 calls an error, and what Go's port of it calls the same.
GO_MESSAGES = {
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "unexpected )": "unexpected )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "invalid escape sequence": "invalid escape sequence",
    "invalid character class range": "invalid character class range",
    "trailing \\": "trailing backslash at end of expression",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
    "invalid UTF-8": "invalid UTF-8",
}


def anchored(pattern: str) -> str:
    return f"^(?s:{pattern})$"


@remember_short(1024)
def regex_problem(pattern: str) -> str | None:
    """Says why a pattern is no regular expression, in Go's words; None if it is one."""
    try:
        pc.match_substring_regex(pa.array([""]), pattern)
    except (pa.ArrowInvalid, UnicodeEncodeError) as error:
        text = str(error).removeprefix("Invalid regular expression: ")
        reason, _, piece = text.partition(": ")
        shown = pattern if reason in ("missing )", "unexpected )") else piece
        return f"error parsing regexp: {GO_MESSAGES.get(reason, reason)}: `{shown}`"
    return None


@remember_short(1024)
def matches_empty(pattern: str) -> bool:
    return match_values(pattern, [""])[0]


def match_values(pattern: str, values: Sequence[str]) -> list[bool]:
    """Says for each value whether the whole of it matches."""
    if not values:
        return []
    try:
        texts = pa.array(values, pa.string())
    except UnicodeEncodeError:
        texts = pa.array([v.encode("utf-8", "surrogateescape") for v in values], pa.binary())
    found: list[bool] = pc.match_substring_regex(texts, anchored(pattern)).to_pylist()
    return found
