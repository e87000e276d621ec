"""Reads and writes literals as Go has them: texts in quotes, integers of 64 bits, floats."""

from __future__ import annotations

import math
import re
from decimal import Decimal

LEAST, MOST = -(2**63), 2**63 - 1

_SIMPLE = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, "\\": 92, '"': 34}
_ESCAPE = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{3})")
_PLAIN = re.compile(r'[^"\\\n]+')


class LiteralError(ValueError):
    """Raised when a literal cannot be read."""


def read_quoted(text: str, at: int) -> tuple[str, int]:
    """Reads a text in double quotes that begins at `at`; returns it and where it ends."""
    found = bytearray()
    at += 1
    while at < len(text):
        if text[at] == '"':
            return found.decode("utf-8", "replace"), at + 1
        if text[at] == "\n":
            break
        if plain := _PLAIN.match(text, at):
            found += plain[0].encode("utf-8", "replace")
            at = plain.end()
            continue
        at += 1
        if text[at : at + 1] in _SIMPLE and at < len(text):
            found.append(_SIMPLE[text[at]])
            at += 1
            continue
        escape = _ESCAPE.match(text, at)
        if escape is None:
            raise LiteralError("invalid char escape" if at < len(text) else "literal not terminated")
        found += _escaped(escape)
        at = escape.end()
    raise LiteralError("literal not terminated")


def _escaped(escape: re.Match[str]) -> bytes:
    byte, short, long, octal = escape.groups()
    if byte or octal:
        number = int(byte, 16) if byte else int(octal, 8)
        if number > 255:
            raise LiteralError("invalid char escape")
        return bytes([number])
    number = int(short or long, 16)
    if number > 0x10FFFF or 0xD800 <= number < 0xE000:
        raise LiteralError("invalid char escape")
    return chr(number).encode()


def read_raw(text: str, at: int) -> tuple[str, int]:
    end = text.find("`", at + 1)
    if end < 0:
        raise LiteralError("literal not terminated")
    return text[at + 1 : end].replace("\r", ""), end + 1


def read_integer(digits: str) -> int:
    if not digits.isdigit():
        raise LiteralError(f'strconv.Atoi: parsing "{digits}": invalid syntax')
    # Python refuses to read very long numbers, and says so in words of its own.
    if len(digits.lstrip("0")) > 19 or (number := int(digits)) > MOST:
        raise LiteralError(f'strconv.Atoi: parsing "{digits}": value out of range')
    return number


def write_text(text: str) -> str:
    """Writes a text as a literal that reads back as the same text."""
    if "`" not in text and "\r" not in text:
        return f"`{text}`"
    return '"' + "".join(_character(each) for each in text) + '"'


def _character(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    return character if character.isprintable() else f"\\U{ord(character):08x}"


def write_float(number: float) -> str:
    """Writes a float without an exponent, and with a point."""
    if not math.isfinite(number):
        return {math.inf: "+Inf", -math.inf: "-Inf"}.get(number, "NaN")
    text = format(Decimal(repr(number)), "f")
    return text if "." in text else text + ".0"
