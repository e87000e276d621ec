"""Reads the string literals of LogQL, which are those of Go."""

from __future__ import annotations

import re

_SIMPLE = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v", "\\": "\\", '"': '"'}
_PLAIN = re.compile(r'[^"\\\n]*')
_CODE = re.compile(r"x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{3}")


class StringFault(ValueError):
    """Raised when a literal cannot be read; its text is that of Go's scanner."""


def unquote(text: str, at: int) -> tuple[str, int]:
    """Returns the value of the literal that begins at `at`, and where it ends."""
    if text[at] == "'":
        raise StringFault("invalid char literal" if "'" in text[at + 1 :] else "literal not terminated")
    if text[at] == "`":
        end = text.find("`", at + 1)
        if end < 0:
            raise StringFault("literal not terminated")
        return text[at + 1 : end].replace("\r", ""), end + 1
    return _quoted(text, at + 1)


def _quoted(text: str, at: int) -> tuple[str, int]:
    parts: list[bytes] = []
    while True:
        plain = _PLAIN.match(text, at)
        assert plain is not None
        parts.append(plain[0].encode("utf-8", "replace"))
        at = plain.end()
        if at == len(text) or text[at] == "\n":
            raise StringFault("literal not terminated")
        if text[at] == '"':
            value = b"".join(parts).decode("utf-8", "replace")
            if "\0" in plain[0]:
                raise StringFault("invalid character NUL")
            return value, at + 1
        part, at = _escape(text, at + 1)
        parts.append(part)


def _escape(text: str, at: int) -> tuple[bytes, int]:
    if simple := _SIMPLE.get(text[at : at + 1]):
        return simple.encode(), at + 1
    code = _CODE.match(text, at)
    if code is None:
        raise StringFault("invalid char escape")
    if code[0][0] in "uU":
        point = int(code[0][1:], 16)
        if point > 0x10FFFF or 0xD800 <= point < 0xE000:
            raise StringFault("invalid char escape")
        return chr(point).encode(), code.end()
    value = int(code[0][1:], 16) if code[0][0] == "x" else int(code[0], 8)
    if value > 0xFF:
        raise StringFault("invalid char escape")
    return bytes([value]), code.end()
