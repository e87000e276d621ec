"""Cuts a template into its texts and the tokens of its actions."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass

from frazil.query.logql.go_numbers import quoted
from frazil.query.logql.go_strings import StringFault, unquote


class TemplateFault(ValueError):
    """Raised when a template cannot be read; its text is that of Go."""


@dataclass(frozen=True)
class Token:
    kind: str
    """`text`, `field`, `variable`, `word`, `number`, `string`, `dot`, `end`, or the mark itself."""
    text: str
    at: int
    spaced: bool
    """Whether a blank stands before it."""
    value: object = None


_TOKEN = re.compile(
    r"(?P<field>\.[A-Za-z_]\w*)"
    r"|(?P<variable>\$\w*)"
    r"|(?P<number>[+-]?(?:0[xX][0-9a-fA-F_]+|0[bB][01_]+|0[oO][0-7_]+|(?:\d[\d_]*\.?[\d_]*|\.\d[\d_]*)(?:[eE][+-]?\d+)?))"
    r"|(?P<word>[^\W\d]\w*)"
    r"|(?P<dot>\.)"
    r"|(?P<character>'(?:[^'\\]|\\.)')"
    r"|(?P<mark>:=|=|\||\(|\)|,)"
)
_BLANK = " \t\r\n"


def tokens_of(name: str, text: str) -> Iterator[Token]:
    """Yields a token for each text, the tokens of each action, and a token `end` after each action."""
    at = 0
    trim_left = False
    while True:
        start = text.find("{{", at)
        piece = text[at:] if start < 0 else text[at:start]
        if trim_left:
            piece = piece.lstrip(_BLANK)
        if start < 0:
            yield Token("text", piece, at, False)
            return
        inside = start + 2
        if text.startswith("-", inside) and text[inside + 1 : inside + 2] in tuple(_BLANK):
            piece = piece.rstrip(_BLANK)
            inside += 2
        yield Token("text", piece, at, False)
        line = text.count("\n", 0, start) + 1
        if text.startswith("/*", inside):
            at, trim_left = _comment(name, text, inside, line)
        else:
            at, trim_left = yield from _action(name, text, inside, line)


def _comment(name: str, text: str, inside: int, line: int) -> tuple[int, bool]:
    end = text.find("*/", inside)
    if end < 0:
        raise TemplateFault(f"template: {name}:{line}: unclosed comment")
    closing = re.compile(r"([ \t\r\n]-)?\}\}").match(text, end + 2)
    if closing is None:
        raise TemplateFault(f"template: {name}:{line}: comment ends before closing delimiter")
    return closing.end(), closing[1] is not None


def _action(name: str, text: str, at: int, line: int) -> Generator[Token, None, tuple[int, bool]]:
    spaced = True
    while True:
        blank = at
        while at < len(text) and text[at] in _BLANK:
            at += 1
        spaced = spaced or at > blank
        if spaced and text.startswith("-}}", at) and at > blank:
            yield Token("end", "", at, spaced)
            return at + 3, True
        if text.startswith("}}", at):
            yield Token("end", "", at, spaced)
            return at + 2, False
        if at >= len(text):
            raise TemplateFault(f"template: {name}:{line}: unclosed action")
        token = _token(name, text, at, line, spaced)
        yield token
        at += len(token.text)
        spaced = False


def _token(name: str, text: str, at: int, line: int, spaced: bool) -> Token:
    if text[at] in '"`':
        try:
            string, end = unquote(text, at)
        except StringFault as fault:
            kind = "raw quoted string" if text[at] == "`" else "quoted string"
            reason = f"unterminated {kind}" if "terminated" in str(fault) else "invalid syntax"
            raise TemplateFault(f"template: {name}:{line}: {reason}") from None
        return Token("string", text[at:end], at, spaced, string)
    found = _TOKEN.match(text, at)
    if found is None:
        raise TemplateFault(f"template: {name}:{line}: unexpected {quoted(text[at])} in operand")
    kind = found.lastgroup or ""
    value: object = None
    if kind == "number":
        value = _number(name, found[0], line)
    elif kind == "character":
        kind, value = "number", ord(found[0][1:-1].encode().decode("unicode_escape")[0])
    elif kind == "mark":
        kind = found[0]
    return Token(kind, found[0], at, spaced, value)


def _number(name: str, written: str, line: int) -> int | float:
    digits = written.replace("_", "")
    try:
        unsigned = digits.lstrip("+-")
        if unsigned.isdecimal() and unsigned.startswith("0") and len(unsigned) > 1:
            return int(digits, 8)
        return int(digits, 0)
    except ValueError:
        pass
    try:
        value = float(digits)
    except ValueError:
        raise TemplateFault(f'template: {name}:{line}: bad number syntax: "{written}"') from None
    return value
