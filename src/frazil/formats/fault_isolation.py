"""Finds the values that cannot be decoded, for decoders that decode many values at once or fail as a whole."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from frazil.formats.values import Positions


class Isolated(NamedTuple):
    good: Positions
    """The positions of the values that could be decoded."""
    column: pa.Array | None
    """The decoded values; None if none could be decoded."""
    faults: dict[int, str]


def isolate(values: pa.Array, decode: Callable[[pa.Array], pa.Array]) -> Isolated:
    """Decodes the values, halving the input wherever `decode` fails, until the faulty values are alone.

    `decode` raises `ValueError` (which Arrow's own errors are) if it cannot decode one of the values it is given.
    """
    done: list[tuple[int, pa.Array]] = []
    faults: dict[int, str] = {}
    waiting = [(0, len(values))] if len(values) else []
    while waiting:
        start, length = waiting.pop()
        try:
            done.append((start, decode(values.slice(start, length))))
        except ValueError as error:
            if length == 1:
                faults[start] = " ".join(str(error).split()).rstrip(".")
            else:
                half = length // 2
                waiting += [(start + half, length - half), (start, half)]
    if not done:
        return Isolated(np.array([], np.int64), None, faults)
    good = np.concatenate([np.arange(start, start + len(array)) for start, array in done])
    return Isolated(good, pa.concat_arrays([array for _, array in done]), faults)
