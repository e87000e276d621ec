"""The marks by which a file's own checksums are found, and what is said when one of them is wrong."""

from __future__ import annotations

_DAMAGED_BITS = 3
"""Of a mark of 64 bits. That other bytes are so near to one happens once in 10^14 files."""


class ChecksumMismatch(ValueError):
    """A file does not match its checksums."""


def is_magic(found: bytes, mark: bytes) -> bool:
    """Returns whether these are the magic bytes.

    Raises `ChecksumMismatch` when they nearly are, because then some bits of them were flipped.
    """
    wrong = (int.from_bytes(found) ^ int.from_bytes(mark)).bit_count()
    if 0 < wrong <= _DAMAGED_BITS:
        raise ChecksumMismatch("the mark of its checksums is damaged")
    return wrong == 0
