"""Cuts the text of a query into tokens.

What is wrong with the text becomes a token too, so that the parser reports an error that stands before it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from frazil.query.traceql.parse.durations import parse_duration
from frazil.query.traceql.parse.literals import LiteralError, read_integer, read_quoted, read_raw
from frazil.query.traceql.parse.names import KEYWORDS, NAME_ENDS, OPERATORS, SCOPED_INTRINSICS, SCOPES

END = "$end"
ERROR = "ERROR"
"""Is the kind of a token that says what is wrong with the text."""
ATTRIBUTE, INTRINSIC = "ATTRIBUTE", "INTRINSIC"
INTEGER, FLOAT, DURATION, STRING, IDENTIFIER = "INTEGER", "FLOAT", "DURATION", "STRING", "IDENTIFIER"

_BLANK = re.compile(r"(?:\s|//[^\n]*|/\*.*?\*/)+", re.DOTALL)
_NUMBER = re.compile(r"0[xXbBoO][0-9a-fA-F_]+|(?:\d[\d_]*\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_UNIT = re.compile(r"[a-zA-Zµμ][\w.µμ]*")
_WORD = re.compile(r"[^\W\d]\w*")
_QUOTED_WORD = re.compile(r"'[^'\n]*'?")
_PARENT_SCOPES = ("span", "resource")
_BY_LENGTH = sorted(OPERATORS, key=len, reverse=True)


@dataclass(frozen=True)
class Token:
    kind: str
    """A symbol, a keyword, or one of the kinds above."""
    start: int
    value: int | float | str = ""
    scope: str = ""
    """The scope of an attribute; empty if it has none."""
    parent: bool = False


def tokenize(text: str) -> list[Token]:
    """Returns the tokens of a text. The last one is of the kind `$end`, or says what is wrong."""
    found: list[Token] = []
    at = 0
    while True:
        if blank := _BLANK.match(text, at):
            at = blank.end()
        if at >= len(text):
            found.append(Token(END, len(text)))
            return found
        token, at = _next(text, at)
        found.append(token)
        if token.kind == ERROR:
            return found


def _next(text: str, at: int) -> tuple[Token, int]:
    character = text[at]
    try:
        if character == '"':
            value, end = read_quoted(text, at)
            return Token(STRING, at, value), end
        if character == "`":
            value, end = read_raw(text, at)
            return Token(STRING, at, value), end
    except LiteralError as error:
        return Token(ERROR, at, str(error)), len(text)
    if number := _NUMBER.match(text, at):
        return _number(text, at, number)
    if character == ".":
        return _attribute(text, at, at + 1, "")
    if word := _WORD.match(text, at):
        return _word(text, at, word)
    if word := _QUOTED_WORD.match(text, at):
        return Token(IDENTIFIER, at, word[0]), word.end()
    for symbol in _BY_LENGTH:
        if text.startswith(symbol, at):
            return Token(symbol, at), at + len(symbol)
    return Token(IDENTIFIER, at, character), at + 1


def _number(text: str, at: int, number: re.Match[str]) -> tuple[Token, int]:
    if unit := _UNIT.match(text, number.end()):
        nanoseconds = parse_duration(text[at : unit.end()])
        if nanoseconds is not None:
            return Token(DURATION, at, nanoseconds), unit.end()
    digits = number[0]
    if "." in digits or (not digits.startswith("0x") and digits[-1:].isdigit() and "e" in digits.lower()):
        value = float(digits.replace("_", ""))
        if value == float("inf"):
            return Token(ERROR, at, f'strconv.ParseFloat: parsing "{digits}": value out of range'), len(text)
        return Token(FLOAT, at, value), number.end()
    try:
        return Token(INTEGER, at, read_integer(digits)), number.end()
    except LiteralError as error:
        return Token(ERROR, at, str(error)), len(text)


def _word(text: str, at: int, word: re.Match[str]) -> tuple[Token, int]:
    name, end = word[0], word.end()
    follows = text[end : end + 1]
    if follows == "." and name in SCOPES:
        return _attribute(text, at, end + 1, name)
    if follows == "." and name == "parent":
        for scope in _PARENT_SCOPES:
            if text.startswith(scope + ".", end + 1):
                return _attribute(text, at, end + len(scope) + 2, scope, parent=True)
        return _attribute(text, at, end + 1, "", parent=True)
    if follows == ":" and name in SCOPED_INTRINSICS:
        return _scoped_intrinsic(text, at, end + 1, SCOPED_INTRINSICS[name])
    if name in KEYWORDS:
        return Token(name, at, name), end
    return Token(IDENTIFIER, at, name), end


def _scoped_intrinsic(text: str, at: int, start: int, known: dict[str, str]) -> tuple[Token, int]:
    word = _WORD.match(text, start)
    name = word[0] if word else ""
    if word and name in known:
        return Token(INTRINSIC, at, known[name]), word.end()
    shown = (
        (name if name in KEYWORDS or name == "rootServiceName" else IDENTIFIER) if name else text[start : start + 1]
    )
    message = f"syntax error: unexpected {shown.strip() or END}"
    if len(known) <= 4:
        message += f", expecting {' or '.join(known)}"
    return Token(ERROR, start, message), len(text)


def _attribute(text: str, at: int, start: int, scope: str, *, parent: bool = False) -> tuple[Token, int]:
    """Reads the name of an attribute; parts of it may be quoted."""
    parts: list[str] = []
    end = start
    while end < len(text) and (character := text[end]) not in NAME_ENDS and not character.isspace():
        if character != '"':
            parts.append(character)
            end += 1
            continue
        end += 1
        while True:
            if end >= len(text):
                return Token(ERROR, end, 'syntax error: unexpected EOF, expecting "'), end
            if text[end] == '"':
                break
            if text[end] == "\\":
                end += 1
                if text[end : end + 1] not in ('"', "\\"):
                    return Token(ERROR, end - 1, "syntax error: invalid escape sequence"), end
            parts.append(text[end])
            end += 1
        end += 1
    if not parts:
        return Token(ERROR, end, "syntax error: unexpected END_ATTRIBUTE, expecting IDENTIFIER"), end
    return Token(ATTRIBUTE, at, "".join(parts), scope, parent), end
