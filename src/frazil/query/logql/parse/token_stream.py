"""Walks over the tokens of a query, and says what stands where something else was expected."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from frazil.errors import QueryError
from frazil.query.logql.parse.log_tree import Place
from frazil.query.logql.parse.tokens import END, IDENTIFIER, NUMBER, STRING, UNKNOWN, Token

T = TypeVar("T")

MOST_NESTED = 100
"""Deeper queries are refused: nobody writes them, and each level takes room on the stack."""

MOST_IN_ROW = 200
"""A row of operators may not be longer: each is one level of the tree, although none of the text."""

_MOST_NAMED = 4


class TokenStream:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    @property
    def next(self) -> Token:
        return self._tokens[self._at]

    @property
    def after_next(self) -> Token:
        return self._tokens[min(self._at + 1, len(self._tokens) - 1)]

    @property
    def place(self) -> Place:
        return Place(self.next.line, self.next.column)

    def take(self) -> Token:
        token = self._tokens[self._at]
        if token.kind != END:
            self._at += 1
        return token

    def accept(self, *kinds: str) -> Token | None:
        """Takes the next token if it is of one of the kinds."""
        return self.take() if self.next.kind in kinds else None

    def expect(self, kind: str, *others: str) -> Token:
        """Takes the next token, which must be of the kind; messages name what else could stand here too."""
        if self.next.kind != kind:
            raise self.unexpected(kind, *others)
        return self.take()

    def unexpected(self, *expected: str) -> QueryError:
        """Makes the error for the next token. Loki names up to four kinds that would have fitted, and else none."""
        token = self.next
        message = f"syntax error: unexpected {IDENTIFIER if token.kind == UNKNOWN else token.kind}"
        if 0 < len(expected) <= _MOST_NAMED:
            message += f", expecting {' or '.join(expected)}"
        return token.error(message)

    def names(self) -> tuple[str, ...]:
        """Reads names between parentheses, of which there may be none."""
        self.expect("(")
        if self.accept(")"):
            return ()
        found = [self._first_name()]
        while self.accept(","):
            found.append(self.expect(IDENTIFIER).text)
        if not self.accept(")"):
            raise self.unexpected(",", ")")
        return tuple(found)

    def _first_name(self) -> str:
        return self.expect(IDENTIFIER, ")").text

    def string(self) -> str:
        return self.expect(STRING).text

    def number(self) -> Token:
        return self.expect(NUMBER)

    def check_row(self, operators: int) -> None:
        if operators > MOST_IN_ROW:
            raise self.next.error(f"the query has more than {MOST_IN_ROW} operators in a row")

    def nested(self, read: Callable[[], T]) -> T:
        """Reads what is one level deeper."""
        if self._depth == MOST_NESTED:
            raise self.next.error(f"the query is nested more than {MOST_NESTED} levels deep")
        self._depth += 1
        try:
            return read()
        finally:
            self._depth -= 1
