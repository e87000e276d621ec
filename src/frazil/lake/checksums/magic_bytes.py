"""The magic bytes by which Frazil's own checksums in a file are recognised, and the error of a wrong checksum."""

from __future__ import annotations

_DAMAGED_BITS = 3
"""This is how many of the 64 bits may be wrong in damaged magic bytes. Other bytes are so similar once in 10^14
files."""


class ChecksumMismatch(ValueError):
    """Raised when a file does not match its checksums."""


def is_magic(found: bytes, magic: bytes) -> bool:
    """Returns whether these are the magic bytes.

    Raises `ChecksumMismatch` when they nearly are, because then some bits of them were flipped.
    """
    wrong = (int.from_bytes(found) ^ int.from_bytes(magic)).bit_count()
    if 0 < wrong <= _DAMAGED_BITS:
        raise ChecksumMismatch("the mark of its checksums is damaged")
    return wrong == 0
