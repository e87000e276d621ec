"""The marks by which a file's own checksums are found, and what is said when one of them is wrong."""

from __future__ import annotations

_DAMAGED_BITS = 3
"""Of a mark of 64 bits. That other bytes are so near to one happens once in 10^14 files."""


class Mismatch(ValueError):
    """A file does not match its checksums."""


def is_marked(found: bytes, mark: bytes) -> bool:
    """Whether this is the mark. `Mismatch` when it nearly is: then it was, before some bits of it were flipped."""
    wrong = (int.from_bytes(found) ^ int.from_bytes(mark)).bit_count()
    if 0 < wrong <= _DAMAGED_BITS:
        raise Mismatch("the mark of its checksums is damaged")
    return wrong == 0
