"""Reads JSON as leniently as Loki does: text after the value is ignored, and what precedes a mistake counts."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

_BLANKS = re.compile(r"[ \t\r\n]*")
_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_TOKEN = re.compile(r"[^\s,}\]:]+")
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)

MALFORMED = "Malformed JSON error"
NO_OBJECT = "Value looks like object, but can't find closing '}' symbol"
NO_ARRAY = "Value is array, but can't find closing ']' symbol"
NO_STRING = "Value is string, but can't find closing '\"' symbol"
UNKNOWN = "Unknown value type"


class JsonFault(ValueError):
    """Raised at the first mistake."""


def unescaped(raw: str) -> str:
    """Returns the text of a string; that of one with an invalid escape is empty."""
    if "\\" not in raw:
        return raw
    try:
        text = json.loads(f'"{raw}"', strict=False)
        text.encode()
    except ValueError:
        return ""
    return str(text)


def skip_blanks(text: str, at: int) -> int:
    blanks = _BLANKS.match(text, at)
    return blanks.end() if blanks else at


def string_end(text: str, at: int, otherwise: str = NO_STRING) -> int:
    """Returns where the string ends that begins at `at`; it is a mistake if it does not."""
    found = _STRING.match(text, at)
    if found is None:
        raise JsonFault(otherwise)
    return found.end()


def value_end(text: str, at: int) -> int:
    """Returns where the value ends that begins at `at`. What is within objects and arrays is not looked at."""
    first = text[at : at + 1]
    if first == '"':
        return string_end(text, at)
    if first and first in "{[":
        depth = 0
        for bracket in _BRACKETS.finditer(text, at):
            if bracket[0] == first:
                depth += 1
            elif bracket[0] == ("}" if first == "{" else "]"):
                depth -= 1
                if depth == 0:
                    return bracket.end()
        raise JsonFault(NO_OBJECT if first == "{" else NO_ARRAY)
    token = _TOKEN.match(text, at)
    if token is None:
        raise JsonFault(MALFORMED)
    word = token[0]
    if word not in ("true", "false", "null") and not (word[0].isdecimal() or word[0] == "-"):
        raise JsonFault(UNKNOWN)
    return token.end()


def members(text: str, at: int) -> Iterator[tuple[str, int, int]]:
    """Yields the keys of the object at `at`, and where their values begin and end."""
    at = skip_blanks(text, at)
    if not text.startswith("{", at):
        raise JsonFault(NO_OBJECT)
    at = skip_blanks(text, at + 1)
    if text.startswith("}", at):
        return
    while True:
        if not text.startswith('"', at):
            raise JsonFault(NO_OBJECT if at < len(text) else MALFORMED)
        end = string_end(text, at, MALFORMED)
        key = unescaped(text[at + 1 : end - 1])
        at = skip_blanks(text, end)
        if not text.startswith(":", at):
            raise JsonFault(MALFORMED)
        at = skip_blanks(text, at + 1)
        if at == len(text):
            raise JsonFault(MALFORMED)
        end = value_end(text, at)
        yield key, at, end
        at = skip_blanks(text, end)
        if text.startswith("}", at):
            return
        if not text.startswith(",", at):
            raise JsonFault(NO_OBJECT if at < len(text) else NO_ARRAY)
        at = skip_blanks(text, at + 1)


def elements(text: str, at: int) -> Iterator[tuple[int, int]]:
    """Yields where the elements of the array at `at` begin and end."""
    at = skip_blanks(text, at + 1)
    while not text.startswith("]", at):
        end = value_end(text, at)
        yield at, end
        at = skip_blanks(text, end)
        if text.startswith(",", at):
            at = skip_blanks(text, at + 1)
        elif not text.startswith("]", at):
            raise JsonFault(MALFORMED)
