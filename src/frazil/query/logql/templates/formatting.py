"""Formats values as Go's `printf` does."""

from __future__ import annotations

import re

from frazil.query.logql.go_numbers import quoted
from frazil.query.logql.templates.values import kind_of, printed

_VERB = re.compile(r"%(?P<flags>[-+# 0]*)(?P<width>\d+|\*)?(?:\.(?P<precision>\d*|\*))?(?P<verb>.)?", re.DOTALL)
_INTEGERS = {"d": "d", "b": "b", "o": "o", "x": "x", "X": "X"}
_FLOATS = "eEfFgG"
_MOST_WIDTH = 10_000


def sprintf(template: str, values: list[object]) -> str:
    """Returns the text with each verb replaced by a value, and notes about those that do not fit."""
    rest = list(values)
    text = _VERB.sub(lambda verb: _formatted(verb, rest), template)
    if rest:
        text += f"%!(EXTRA {', '.join(f'{kind_of(each)}={printed(each)}' for each in rest)})"
    return text


def _formatted(verb: re.Match[str], rest: list[object]) -> str:
    letter = verb["verb"]
    if letter is None:
        return "%!(NOVERB)"
    if letter == "%":
        return "%"
    width = _size(verb["width"], rest)
    precision = _size(verb["precision"], rest) if verb["precision"] is not None else None
    if not rest:
        return f"%!{letter}(MISSING)"
    value = rest.pop(0)
    text = _converted(letter, value, verb["flags"], precision)
    if "-" in verb["flags"]:
        return text.ljust(width)
    if "0" in verb["flags"] and isinstance(value, int | float) and not isinstance(value, bool):
        sign, digits = (text[0], text[1:]) if text[:1] in ("-", "+") else ("", text)
        return sign + digits.rjust(width - len(sign), "0")
    return text.rjust(width)


def _size(written: str | None, rest: list[object]) -> int:
    if written == "*":
        size = rest.pop(0) if rest else 0
        return min(size, _MOST_WIDTH) if isinstance(size, int) else 0
    return min(int(written), _MOST_WIDTH) if written else 0


def _converted(letter: str, value: object, flags: str, precision: int | None) -> str:
    sign = "+" if "+" in flags else " " if " " in flags else ""
    if letter == "v":
        return f"{sign}{printed(value)}" if sign and isinstance(value, int | float) and value >= 0 else printed(value)
    if letter == "T":
        return kind_of(value)
    if isinstance(value, bool):
        return printed(value) if letter == "t" else f"%!{letter}(bool={printed(value)})"
    if isinstance(value, int):
        if letter in _INTEGERS:
            prefix = "#" if "#" in flags else ""
            return format(value, f"{sign}{prefix}{_INTEGERS[letter]}")
        if letter == "c":
            return chr(value) if 0 <= value < 0x110000 else "\ufffd"
        if letter == "q":
            return f"'{chr(value)}'"
        if letter == "U":
            return f"U+{value:04X}"
        return f"%!{letter}(int={value})"
    if isinstance(value, float):
        if letter not in _FLOATS:
            return f"%!{letter}(float64={printed(value)})"
        if letter in "gG" and precision is None:
            return printed(value)
        return format(value, f"{sign}.{6 if precision is None else precision}{letter}")
    text = printed(value)
    match letter:
        case "s":
            return text if precision is None else text[:precision]
        case "q":
            return f"`{text}`" if "#" in flags and "`" not in text else quoted(text)
        case "x":
            return text.encode().hex()
        case "X":
            return text.encode().hex().upper()
    return f"%!{letter}({kind_of(value)}={text})"
