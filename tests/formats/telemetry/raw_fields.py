"""What tests beside this share."""

from __future__ import annotations


def raw(number: int, data: bytes) -> bytes:
    assert len(data) < 128
    return bytes([number << 3 | 2, len(data)]) + data
