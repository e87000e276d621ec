"""Renumbers codes."""

from __future__ import annotations

import numpy as np

from frazil.query.traceql.engine.values import Ints

_ROOM = 1 << 16


def distinct_codes(codes: Ints) -> tuple[Ints, Ints]:
    """Returns the distinct codes in their order, and for each code its place among them.

    Codes are not negative. Where they are small numbers, a table does it without sorting.
    """
    most = int(codes.max(initial=0))
    if most > 4 * len(codes) + _ROOM:
        used, places = np.unique(codes, return_inverse=True)
        return used, places.astype(np.int64)
    present = np.zeros(most + 1, bool)
    present[codes] = True
    used = np.flatnonzero(present)
    numbers = np.cumsum(present) - 1
    return used, numbers[codes]
