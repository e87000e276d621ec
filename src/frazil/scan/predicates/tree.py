"""Defines the tree of a predicate.

A scan returns the rows for which the predicate is true. As in SQL a comparison with null is unknown, which is neither
true nor false, and `not unknown` is unknown too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Literal, TypeAlias

Value: TypeAlias = bool | int | float | str | bytes | Decimal | date | datetime | time
Operator: TypeAlias = Literal["==", "!=", "<", "<=", ">", ">="]


@dataclass(frozen=True)
class Column:
    """Is a column of the topic; a field of a struct is written with dots."""

    name: str


@dataclass(frozen=True)
class MapValue:
    """Is what a column of maps has under a key, and null where it does not have the key."""

    column: str
    key: str


Term: TypeAlias = Column | MapValue


@dataclass(frozen=True)
class Comparison:
    term: Term
    operator: Operator
    value: Value


@dataclass(frozen=True)
class In:
    term: Term
    values: frozenset[Value]


@dataclass(frozen=True)
class IsNull:
    term: Term


@dataclass(frozen=True)
class StartsWith:
    term: Term
    prefix: str


@dataclass(frozen=True)
class Contains:
    """Is true where the text has `text` in it; with `ignore_case` letters of both cases are alike."""

    term: Term
    text: str
    ignore_case: bool = False


@dataclass(frozen=True)
class Matches:
    """Is true where the text matches the regular expression of RE2: somewhere, or as a whole if it is anchored."""

    term: Term
    pattern: str
    anchored: bool = False


@dataclass(frozen=True)
class Not:
    child: Predicate


@dataclass(frozen=True)
class And:
    children: tuple[Predicate, ...]
    """All must be true. Without children it is true."""


@dataclass(frozen=True)
class Or:
    children: tuple[Predicate, ...]
    """One must be true. Without children it is false."""


Predicate: TypeAlias = Comparison | In | IsNull | StartsWith | Contains | Matches | Not | And | Or
