"""Cuts the text of a query into tokens."""

from __future__ import annotations

import re

from frazil.query.logql.go_numbers import parse_bytes, parse_go_duration, parse_prometheus_duration
from frazil.query.logql.go_strings import StringFault, unquote
from frazil.query.logql.parse.tokens import (
    BYTES,
    DURATION,
    END,
    FLAG,
    FUNCTIONS,
    IDENTIFIER,
    KEYWORDS,
    LOWER_CASE,
    NUMBER,
    RANGE,
    STRING,
    UNKNOWN,
    Token,
    error,
    error_at,
)

MOST_BYTES = 131_072
"""Longer queries are refused, as Loki does."""

_BLANKS = re.compile(r"(?:[ \t\r\n]|#[^\n]*)+")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_CHARACTER = re.compile(r"'(?:[^'\\\n]|\\.)'")
_NUMBER = re.compile(
    r"0[xX][0-9a-fA-F_]*\.?[0-9a-fA-F_]*(?:[pP][+-]?\d*)?|0[bBoO]\d*|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d*)?",
    re.ASCII,
)
_WITH_TIME_UNIT = re.compile(r"-?\.?\d[\d.nuµmshdwy]*", re.ASCII)
_WITH_SIZE_UNIT = re.compile(r"\.?\d[\d.BiKkMGTP]*", re.ASCII)
_FLAGS = re.compile(r"--(?:strict|keep-empty)\b")
_OPERATORS = re.compile(r"\|[=~>]|!=|!~|!>|=~|==|>=|<=|.", re.DOTALL)
_MEANINGFUL = frozenset("{}()[],.|=<>+-*/%^")
_CALL = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*(?:\(|(?:by|without)(?:[ \t\r\n]|#[^\n]*)*\()", re.IGNORECASE)


def tokens_of(text: str) -> list[Token]:
    """Returns the tokens of the query, the last of which is its end."""
    if (size := len(text.encode("utf-8", "replace"))) >= MOST_BYTES:
        raise error(f"input size too long ({size} > {MOST_BYTES})")
    return list(_Lexer(text).tokens())


class _Lexer:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line = 1
        self._line_start = 0
        self._counted = 0

    def tokens(self) -> list[Token]:
        found = []
        while True:
            if blanks := _BLANKS.match(self._text, self._at):
                self._at = blanks.end()
            token = self._token()
            found.append(token)
            if token.kind == END:
                return found

    def _place(self) -> tuple[int, int]:
        """Returns line and column of the next token, both from 1."""
        newlines = self._text.count("\n", self._counted, self._at)
        if newlines:
            self._line += newlines
            self._line_start = self._text.rfind("\n", 0, self._at) + 1
        self._counted = self._at
        return self._line, self._at - self._line_start + 1

    def _token(self) -> Token:
        line, column = self._place()
        text, at = self._text, self._at
        if at == len(text):
            if not text:
                raise error("syntax error: unexpected $end")
            return Token(END, "", line, column)
        first = text[at]
        if first == "\0":
            raise error_at("invalid character NUL", line, column)
        if first in '"`' or (first == "'" and not _CHARACTER.match(text, at)):
            return self._string(line, column)
        if first == "[":
            return self._range(line, column)
        if (first.isdecimal() and first.isascii()) or (first in ".-" and text[at + 1 : at + 2].isdecimal()):
            token = self._number(line, column)
            if token is not None:
                return token
        if name := _NAME.match(text, at):
            return self._name(name[0], line, column)
        if flag := _FLAGS.match(text, at):
            self._at = flag.end()
            return Token(FLAG, flag[0], line, column, line_shown=False)
        if character := _CHARACTER.match(text, at):
            self._at = character.end()
            return Token(UNKNOWN, character[0], line, column)
        operator = _OPERATORS.match(text, at)
        assert operator is not None
        self._at = operator.end()
        if operator[0] not in _MEANINGFUL and len(operator[0]) == 1:
            return Token(UNKNOWN, operator[0], line, column)
        return Token(operator[0], operator[0], line, column, line_shown=len(operator[0]) == 1)

    def _string(self, line: int, column: int) -> Token:
        try:
            value, self._at = unquote(self._text, self._at)
        except StringFault as fault:
            raise error_at(str(fault), line, column) from None
        return Token(STRING, value, line, column)

    def _range(self, line: int, column: int) -> Token:
        end = self._text.find("]", self._at)
        if end < 0:
            raise error_at("missing closing ']' in duration", line, column, line_shown=False)
        written = self._text[self._at + 1 : end]
        try:
            value = parse_prometheus_duration(written)
        except ValueError as wrong:
            raise error_at(str(wrong), line, column, line_shown=False) from None
        self._at = end + 1
        return Token(RANGE, written, line, column, value, line_shown=False)

    def _number(self, line: int, column: int) -> Token | None:
        """Returns a duration if it is one, else a size, else a plain number."""
        text, at = self._text, self._at
        plain = _NUMBER.match(text, at)
        timed = _WITH_TIME_UNIT.match(text, at)
        if timed and (plain is None or timed.end() > plain.end()):
            for parse in (_signed_prometheus_duration, parse_go_duration):
                try:
                    value = parse(timed[0])
                except ValueError:
                    continue
                self._at = timed.end()
                return Token(DURATION, timed[0], line, column, value, line_shown=False)
        if plain is None:
            return None
        sized = _WITH_SIZE_UNIT.match(text, at)
        if sized and sized.end() > plain.end():
            try:
                value = parse_bytes(sized[0])
            except ValueError:
                pass
            else:
                self._at = sized.end()
                return Token(BYTES, sized[0], line, column, value, line_shown=False)
        _check_digits(plain[0], line, column)
        self._at = plain.end()
        return Token(NUMBER, plain[0], line, column)

    def _name(self, name: str, line: int, column: int) -> Token:
        self._at += len(name)
        lower = name.lower()
        if lower in KEYWORDS:
            return Token(lower, name, line, column)
        if lower in FUNCTIONS and _CALL.match(self._text, self._at):
            return Token(lower if lower in LOWER_CASE else lower.upper(), lower, line, column)
        return Token(IDENTIFIER, name, line, column)


def _signed_prometheus_duration(text: str) -> int:
    return -parse_prometheus_duration(text[1:]) if text.startswith("-") else parse_prometheus_duration(text)


def _check_digits(number: str, line: int, column: int) -> None:
    lower = number.lower()
    if lower[-1] in "+-" or (lower[-1] == "e" and not lower.startswith("0x")) or lower[-1] == "p":
        raise error_at("exponent has no digits", line, column)
    for prefix, kind in (("0x", "hexadecimal"), ("0b", "decimal"), ("0o", "octal")):
        if lower.startswith(prefix) and len(lower) == len(prefix):
            raise error_at(f"{kind} literal has no digits", line, column)
