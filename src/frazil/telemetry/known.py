"""What comes again and again beside records, remembered as the rows that it becomes.

A row is remembered with copies of itself, as many as records had it at once. To repeat it is then to cut off as many
as are needed, which is far quicker than to make them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, TypeVar

import numpy as np
import pyarrow as pa

from frazil.config.section import MIB

MOST = 4096
"""Rows that are remembered."""
MOST_COPIES_BYTES = 32 * MIB
"""Of all their copies."""
LARGEST = MIB // 4
"""The copies of one row, in bytes. Nothing is remembered of a row that is larger alone."""
LONGEST = 1024
"""Copies of one row."""
MANY = 64
"""Rows for which it is quicker to pick them out of one array than to join their copies."""

Key = TypeVar("Key", bound=Hashable)


class Known(Generic[Key]):
    """Thread-safe."""

    def __init__(self, convert: Callable[[Sequence[Key]], pa.StructArray]) -> None:
        """`convert` makes a row of each."""
        self._convert = convert
        self._lock = threading.Lock()
        self._rows: dict[Key, pa.StructArray] = {}
        self._copies: dict[Key, pa.StructArray] = {}
        self._copies_bytes = 0

    def repeated(self, keys: Sequence[Key], counts: Sequence[int]) -> pa.StructArray:
        """The row of each, so many times."""
        if not 0 < len(keys) <= MANY:
            return self._picked(keys, counts)
        copies = self._copies_of(keys)
        parts: list[pa.StructArray] = []
        for key, count in zip(keys, counts, strict=True):
            if len(copies[key]) < count:
                copies[key] = self._grown(key, copies[key], count)
            full, rest = divmod(count, len(copies[key]))
            parts += [copies[key]] * full
            parts.append(copies[key].slice(0, rest))
        return parts[0] if len(parts) == 1 else pa.concat_arrays(parts)

    def _picked(self, keys: Sequence[Key], counts: Sequence[int]) -> pa.StructArray:
        numbers: dict[Key, int] = {}
        codes = np.array([numbers.setdefault(key, len(numbers)) for key in keys], np.int64)
        return self._convert(list(numbers)).take(pa.array(np.repeat(codes, counts)))

    def _copies_of(self, keys: Sequence[Key]) -> dict[Key, pa.StructArray]:
        """As many as there are: one row at least."""
        # Another thread may forget them all meanwhile.
        found = {key: self._copies.get(key) or self._rows.get(key) for key in keys}
        missing = [key for key, rows in found.items() if rows is None]
        return found | self._learn(missing) if missing else found

    def _learn(self, keys: list[Key]) -> dict[Key, pa.StructArray]:
        converted = self._convert(keys)
        # Each has nothing but its own.
        learnt = {key: converted.take(pa.array([place])) for place, key in enumerate(keys)}
        with self._lock:
            if len(self._rows) + len(learnt) > MOST:
                self._rows = {}
            self._rows |= {key: row for key, row in learnt.items() if row.nbytes <= LARGEST}
        return learnt

    def _grown(self, key: Key, copies: pa.StructArray, count: int) -> pa.StructArray:
        """As many copies as are wanted, or as many as there may be."""
        most = min(LONGEST, LARGEST // max(1, copies.nbytes // len(copies)))
        wanted = min(most, 1 << (count - 1).bit_length())
        if wanted <= len(copies):
            return copies
        grown = copies.take(pa.array(np.zeros(wanted, np.int64)))
        with self._lock:
            if self._copies_bytes + grown.nbytes > MOST_COPIES_BYTES:
                self._copies, self._copies_bytes = {}, 0
            self._copies[key] = grown
            self._copies_bytes += grown.nbytes
        return grown
