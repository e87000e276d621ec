"""Truncates upper bounds: returns the least value of a given length that is above all values with that prefix."""

from __future__ import annotations

_SURROGATES = (0xD800, 0xDFFF)
_LAST = 0x10FFFF


def text_above(value: str, length: int) -> bytes | None:
    """Returns the bound in UTF-8, or None if there is none of that length."""
    if len(value) <= length:
        return value.encode()
    for end in range(length, 0, -1):
        following = ord(value[end - 1]) + 1
        if following == _SURROGATES[0]:
            # Surrogates are no characters and cannot be encoded in UTF-8.
            following = _SURROGATES[1] + 1
        if following <= _LAST:
            return (value[: end - 1] + chr(following)).encode()
    return None


def bytes_above(value: bytes, length: int) -> bytes | None:
    """Returns the bound, or None if there is none of that length."""
    if len(value) <= length:
        return value
    for end in range(length, 0, -1):
        if value[end - 1] < 0xFF:
            return value[: end - 1] + bytes([value[end - 1] + 1])
    return None
