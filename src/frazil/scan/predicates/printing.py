"""Writes a predicate as text that `frazil.scan.predicates.text` reads."""

from __future__ import annotations

import re
from datetime import date, datetime, time
from decimal import Decimal

from frazil.scan.predicates.tree import (
    And,
    Column,
    Comparison,
    Contains,
    In,
    IsNull,
    Matches,
    Not,
    Or,
    Predicate,
    StartsWith,
    Term,
    Value,
)
from frazil.scan.predicates.words import RESERVED

_PLAIN_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")


def to_text(predicate: Predicate) -> str:
    """Returns the predicate as people write it."""
    match predicate:
        case Comparison(term, operator, value):
            return f"{_term(term)} {'=' if operator == '==' else operator} {value_text(value)}"
        case In(term, values):
            return f"{_term(term)} in ({', '.join(sorted(map(value_text, values)))})"
        case IsNull(term):
            return f"{_term(term)} is null"
        case StartsWith(term, prefix):
            return f"{_term(term)} starts with {value_text(prefix)}"
        case Contains(term, text, ignore_case):
            return f"{_term(term)} contains {value_text(text)}{' ignoring case' if ignore_case else ''}"
        case Matches(term, pattern, anchored):
            return f"{_term(term)} {'fully ' if anchored else ''}matches {value_text(pattern)}"
        case Not(child):
            return f"not ({to_text(child)})"
        case And(children):
            return " and ".join(map(_part, children)) if children else "true"
        case Or(children):
            return " or ".join(map(_part, children)) if children else "false"


def value_text(value: Value) -> str:
    match value:
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case float():
            return f"double '{value!r}'"
        case Decimal():
            text = str(value)
            # A decimal number is told from an integer by its point.
            return text if "." in text or "E" in text else f"decimal '{text}'"
        case str():
            return _quoted(value)
        case bytes():
            return f"x'{value.hex()}'"
        case datetime():
            return f"timestamp '{value.isoformat()}'"
        case date():
            return f"date '{value.isoformat()}'"
        case time():
            return f"time '{value.isoformat()}'"


def _part(predicate: Predicate) -> str:
    text = to_text(predicate)
    return f"({text})" if isinstance(predicate, And | Or) and predicate.children else text


def _term(term: Term) -> str:
    return _name(term.name) if isinstance(term, Column) else f"{_name(term.column)}[{_quoted(term.key)}]"


def _name(name: str) -> str:
    if _PLAIN_NAME.fullmatch(name) and RESERVED.isdisjoint(name.lower().split(".")):
        return name
    return '"' + name.replace('"', '""') + '"'


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
