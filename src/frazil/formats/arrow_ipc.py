"""Arrow files and streams that somebody else wrote."""

from __future__ import annotations

_MISALIGNED = "did not start on 8-byte aligned offset"


def is_misaligned(error: Exception) -> bool:
    """Returns whether Arrow refuses to read a buffer because it does not begin at a multiple of eight bytes."""
    return _MISALIGNED in str(error)
