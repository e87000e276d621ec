"""Hands out the tokens of a text one by one, and says what is wrong where one does not fit."""

from __future__ import annotations

from collections.abc import Collection

from frazil.query.traceql.errors import TraceQLSyntaxError, syntax_error
from frazil.query.traceql.parse.tokens import ATTRIBUTE, END, ERROR, INTRINSIC, Token, tokenize

MOST_NESTED = 200
"""Expressions are nested at most this deep: what walks a tree calls itself for each level."""


class TokenStream:
    def __init__(self, text: str) -> None:
        self.text = text
        self._tokens = tokenize(text)
        self._place = 0
        self._depth = 0

    @property
    def next(self) -> Token:
        token = self._tokens[self._place]
        if token.kind == ERROR:
            raise syntax_error(str(token.value), self.text, token.start)
        return token

    def take(self) -> Token:
        token = self.next
        if token.kind != END:
            self._place += 1
        return token

    def takes(self, *kinds: str) -> bool:
        """Takes the next token if it is of one of these kinds."""
        if self.next.kind not in kinds:
            return False
        self.take()
        return True

    def expect(self, *kinds: str) -> Token:
        if self.next.kind not in kinds:
            raise self.unexpected(expecting=kinds)
        return self.take()

    def unexpected(self, token: Token | None = None, expecting: Collection[str] = ()) -> TraceQLSyntaxError:
        token = token or self.next
        message = f"syntax error: unexpected {self._shown(token)}"
        if 0 < len(expecting) <= 4:
            message += f", expecting {' or '.join(expecting)}"
        return syntax_error(message, self.text, token.start)

    def error(self, message: str, token: Token) -> TraceQLSyntaxError:
        return syntax_error(message, self.text, token.start)

    def descend(self) -> None:
        """Counts a level of nesting; `ascend` ends it."""
        self._depth += 1
        if self._depth > MOST_NESTED:
            raise self.error(f"the query is nested deeper than {MOST_NESTED} levels", self.next)

    def ascend(self) -> None:
        self._depth -= 1

    def _shown(self, token: Token) -> str:
        if token.kind not in (ATTRIBUTE, INTRINSIC):
            return token.kind
        text = self.text[token.start :]
        ends = [text.index(each) for each in ".:" if each in text]
        return text[: min(ends) + 1] if ends else token.kind
