"""Parses the settings `partition_by` and `sort_by`: `day(time)`, `bucket(16, id)`, `time desc nulls last`."""

from __future__ import annotations

import difflib
import re
from typing import Any, NamedTuple, NoReturn

from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.types import NestedField, StructType

from frazil.errors import ConfigError

_TOKEN = re.compile(r"\s*(?:(?P<quoted>`[^`]*`)|(?P<word>[^\s(),`]+)|(?P<mark>[(),]))")
_PLAIN: dict[str, type[Transform[Any, Any]]] = {
    "year": YearTransform,
    "month": MonthTransform,
    "day": DayTransform,
    "hour": HourTransform,
    "void": VoidTransform,
    "identity": IdentityTransform,
}
_COUNTED: dict[str, type[Transform[Any, Any]]] = {"bucket": BucketTransform, "truncate": TruncateTransform}
_FUNCTIONS = (*_PLAIN, *_COUNTED)
_UNKNOWN = -1


class Term(NamedTuple):
    """A column with the transform that is applied to it."""

    function: str
    transform: Transform[Any, Any]
    column: str
    field_id: int


class SortTerm(NamedTuple):
    term: Term
    descending: bool
    nulls_first: bool


class _Token(NamedTuple):
    text: str
    position: int
    is_name: bool


def parse_partition_term(text: str, schema: Schema | None, setting: str) -> Term:
    """Parses one item of `partition_by`. Without a schema only the syntax is checked, and no column has an id."""
    parser = _Parser(text, schema, setting)
    term = parser.term()
    parser.end()
    return term


def parse_sort_term(text: str, schema: Schema | None, setting: str) -> SortTerm:
    """Parses one item of `sort_by`. Without a schema only the syntax is checked, and no column has an id."""
    parser = _Parser(text, schema, setting)
    term = parser.term()
    descending = parser.option({"asc": False, "desc": True}, default=False)
    # Nulls are the smallest values, as in Spark.
    nulls_first = not descending
    if parser.word("nulls"):
        nulls_first = parser.choice({"first": True, "last": False})
    parser.end()
    return SortTerm(term, descending, nulls_first)


def _single_columns(schema: Schema) -> list[str]:
    """Returns the names of all fields with one value per row.

    Fields inside lists and maps have any number of values.
    """
    names: list[str] = []

    def visit(fields: tuple[NestedField, ...], path: str) -> None:
        for field in fields:
            names.append(path + field.name)
            if isinstance(field.field_type, StructType):
                visit(field.field_type.fields, f"{path}{field.name}.")

    visit(schema.fields, "")
    return names


class _Parser:
    def __init__(self, text: str, schema: Schema | None, setting: str) -> None:
        self._text = text
        self._schema = schema
        self._setting = setting
        self._tokens = self._split()
        self._next = 0

    def term(self) -> Term:
        name = self._take("a column or a function")
        if self._peek("("):
            return self._call(name)
        return self._column(name, "identity", IdentityTransform())

    def word(self, wanted: str) -> bool:
        if self._next < len(self._tokens) and self._tokens[self._next].text.lower() == wanted:
            self._next += 1
            return True
        return False

    def option(self, choices: dict[str, bool], default: bool) -> bool:
        return next((value for name, value in choices.items() if self.word(name)), default)

    def choice(self, choices: dict[str, bool]) -> bool:
        found = next((value for name, value in choices.items() if self.word(name)), None)
        if found is None:
            self._fail(f"expected {' or '.join(choices)}")
        return found

    def end(self) -> None:
        if self._next < len(self._tokens):
            self._fail(f"{self._tokens[self._next].text!r} is not expected")

    def _call(self, function: _Token) -> Term:
        name = function.text.lower()
        if name not in _FUNCTIONS or not function.is_name:
            self._fail(f"{function.text!r} is no function; known are {', '.join(_FUNCTIONS)}", function)
        self._mark("(")
        transform: Transform[Any, Any]
        if name in _COUNTED:
            count = self._take("a number")
            if not count.text.isdecimal() or int(count.text) <= 0:
                self._fail(f"{name} begins with a number above 0, as in {name}(16, column)", count)
            self._mark(",")
            transform = _COUNTED[name](int(count.text))
        else:
            transform = _PLAIN[name]()
        column = self._take("a column")
        self._mark(")")
        return self._column(column, name, transform)

    def _column(self, token: _Token, function: str, transform: Transform[Any, Any]) -> Term:
        if self._schema is None:
            return Term(function, transform, token.text, _UNKNOWN)
        known = _single_columns(self._schema)
        if token.text not in known:
            close = difflib.get_close_matches(token.text, known, 1)
            hint = f", did you mean {close[0]!r}?" if close else f"; there are {', '.join(sorted(known))}"
            self._fail(f"there is no column {token.text!r}{hint}", token)
        field = self._schema.find_field(token.text)
        if not field.field_type.is_primitive:
            self._fail(f"column {token.text!r} is {field.field_type}; only single values have an order", token)
        if not transform.can_transform(field.field_type):
            self._fail(f"{function} does not work on {token.text!r}, which is {field.field_type}", token)
        return Term(function, transform, token.text, field.field_id)

    def _split(self) -> list[_Token]:
        tokens: list[_Token] = []
        position = 0
        while self._text[position:].strip():
            match = _TOKEN.match(self._text, position)
            if match is None:
                self._fail("this cannot be read", _Token("", position, False))
            text = match.group().lstrip()
            start = match.end() - len(text)
            tokens.append(_Token(text.strip("`"), start, match["mark"] is None))
            position = match.end()
        return tokens

    def _peek(self, mark: str) -> bool:
        return self._next < len(self._tokens) and self._tokens[self._next].text == mark

    def _take(self, what: str) -> _Token:
        if self._next == len(self._tokens) or not self._tokens[self._next].is_name:
            self._fail(f"expected {what}")
        self._next += 1
        return self._tokens[self._next - 1]

    def _mark(self, mark: str) -> None:
        if not self._peek(mark):
            self._fail(f"expected {mark!r}")
        self._next += 1

    def _fail(self, reason: str, token: _Token | None = None) -> NoReturn:
        if token is None:
            rest = self._tokens[self._next :] if hasattr(self, "_tokens") else []
            position = rest[0].position if rest else len(self._text)
        else:
            position = token.position
        raise ConfigError(f"{self._setting}: {self._text!r}, at position {position + 1}: {reason}.")
