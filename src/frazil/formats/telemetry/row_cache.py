"""What comes again and again beside records, remembered as the rows that it becomes.

Where many records have the same, one after the other, the row is remembered with copies of itself, as many as were
needed at once. To repeat it is then to cut off as many as are needed, which is far quicker than to make them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from frazil.config.sections.section import MIB

MOST, MOST_BYTES = 4096, 16 * MIB
"""Rows that are remembered, and what they may take."""
LONGEST_KEY = 4096
"""Bytes of what is worth remembering."""
LONGEST, LARGEST = 1024, MIB
"""Copies of one row, and what they may take."""
MOST_COPIES_BYTES = 32 * MIB
"""What all copies may take."""
LONG = 64
"""From so many records in a row on, on the average, copies are quicker."""

Key = TypeVar("Key", bound=Hashable)


class _CachedRows(NamedTuple, Generic[Key]):
    rows: pa.StructArray
    places: dict[Key, int]

    def picked(self, keys: Sequence[Key], counts: Sequence[int]) -> pa.StructArray:
        """The row of each, so many times."""
        places = np.array([self.places[key] for key in keys], np.int64)
        return self.rows.take(pa.array(np.repeat(places, counts)))


class _Copies(NamedTuple):
    rows: pa.StructArray
    most: int
    """There may be."""


class RowCache(Generic[Key]):
    """Thread-safe."""

    def __init__(self, convert: Callable[[Sequence[Key]], pa.StructArray], size: Callable[[Key], int]) -> None:
        """`convert` makes a row of each, and `size` says how many bytes each has."""
        self._convert = convert
        self._size = size
        self._lock = threading.Lock()
        self._known: _CachedRows[Key] | None = None
        self._copies: dict[Key, _Copies] = {}
        self._copies_bytes = 0

    def repeated(self, keys: Sequence[Key], counts: Sequence[int]) -> pa.StructArray:
        """The row of each, so many times."""
        if any(self._size(key) > LONGEST_KEY for key in keys):
            return self._converted(keys).picked(keys, counts)
        known = self._with(keys)
        if not keys or sum(counts) < len(keys) * LONG:
            return known.picked(keys, counts)
        parts: list[pa.StructArray] = []
        for key, count in zip(keys, counts, strict=True):
            copies = self._copies.get(key)
            if copies is None or len(copies.rows) < min(count, copies.most):
                copies = self._copied(known, key, count)
            if copies.most < LONG:
                return known.picked(keys, counts)
            full, rest = divmod(count, len(copies.rows))
            parts += [copies.rows] * full
            parts.append(copies.rows.slice(0, rest))
        # Also of one alone: what is cut off would count as part of it.
        return pa.concat_arrays(parts)

    def _converted(self, keys: Sequence[Key]) -> _CachedRows[Key]:
        distinct = list(dict.fromkeys(keys))
        return _CachedRows(self._convert(distinct), {key: place for place, key in enumerate(distinct)})

    def _with(self, keys: Sequence[Key]) -> _CachedRows[Key]:
        """Rows with those of these keys."""
        known = self._known
        missing = [key for key in dict.fromkeys(keys) if known is None or key not in known.places]
        if known is not None and not missing:
            return known
        converted = self._converted(missing)
        learnt = converted if known is None else _joined(known, converted)
        # What other threads learn meanwhile is forgotten, and learnt again.
        for remembered in (learnt, converted):
            if len(remembered.places) <= MOST and remembered.rows.nbytes <= MOST_BYTES:
                self._known = remembered
                break
        return learnt

    def _copied(self, known: _CachedRows[Key], key: Key, count: int) -> _Copies:
        """As many copies as are wanted, or as many as there may be."""
        row = known.picked([key], [1])
        most = min(LONGEST, LARGEST // max(1, row.nbytes))
        wanted = min(most, 1 << (count - 1).bit_length())
        copies = _Copies(row.take(pa.array(np.zeros(wanted, np.int64))), most)
        if most < LONG:
            return copies
        with self._lock:
            if self._copies_bytes + copies.rows.nbytes > MOST_COPIES_BYTES:
                self._copies, self._copies_bytes = {}, 0
            self._copies[key] = copies
            self._copies_bytes += copies.rows.nbytes
        return copies


def _joined(known: _CachedRows[Key], more: _CachedRows[Key]) -> _CachedRows[Key]:
    behind = {key: len(known.rows) + place for key, place in more.places.items()}
    return _CachedRows(pa.concat_arrays([known.rows, more.rows]), {**known.places, **behind})
