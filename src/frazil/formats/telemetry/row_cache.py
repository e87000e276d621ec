"""Caches the rows that resources, scopes and metrics become, because the same ones come again and again.

Where many records in a row share one, its row is cached with copies of itself. Repeating it is then a slice, which is
far quicker than a take.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Generic, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

from frazil.config.sections.section import MIB

MOST, MOST_BYTES = 4096, 16 * MIB
"""The most cached rows, and the most bytes that they may take."""
LONGEST_KEY = 4096
"""The longest key, in bytes, that is worth caching."""
LONGEST, LARGEST = 1024, MIB
"""The most copies of one row, and the most bytes that they may take."""
MOST_COPIES_BYTES = 32 * MIB
"""The most bytes that all copies may take."""
LONG = 64
"""The average number of consecutive records from which on copies are quicker."""

Key = TypeVar("Key", bound=Hashable)


class _CachedRows(NamedTuple, Generic[Key]):
    rows: pa.StructArray
    places: dict[Key, int]

    def picked(self, keys: Sequence[Key], counts: Sequence[int]) -> pa.StructArray:
        """Returns the row of each key, repeated by its count."""
        places = np.array([self.places[key] for key in keys], np.int64)
        return self.rows.take(pa.array(np.repeat(places, counts)))


class _Copies(NamedTuple):
    rows: pa.StructArray
    most: int
    """The most copies there may be."""


class RowCache(Generic[Key]):
    """Caches rows by key. It is thread-safe."""

    def __init__(self, convert: Callable[[Sequence[Key]], pa.StructArray], size: Callable[[Key], int]) -> None:
        """`convert` makes a row of each key, and `size` returns the bytes of a key."""
        self._convert = convert
        self._size = size
        self._lock = threading.Lock()
        self._known: _CachedRows[Key] | None = None
        self._copies: dict[Key, _Copies] = {}
        self._copies_bytes = 0

    def repeated(self, keys: Sequence[Key], counts: Sequence[int]) -> pa.StructArray:
        """Returns the row of each key, repeated by its count."""
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
        # A single slice is copied as well: otherwise the rows that were cut off would count as part of it.
        return pa.concat_arrays(parts)

    def _converted(self, keys: Sequence[Key]) -> _CachedRows[Key]:
        distinct = list(dict.fromkeys(keys))
        return _CachedRows(self._convert(distinct), {key: place for place, key in enumerate(distinct)})

    def _with(self, keys: Sequence[Key]) -> _CachedRows[Key]:
        """Returns rows that include those of these keys."""
        known = self._known
        missing = [key for key in dict.fromkeys(keys) if known is None or key not in known.places]
        if known is not None and not missing:
            return known
        converted = self._converted(missing)
        learnt = converted if known is None else _joined(known, converted)
        # What other threads learn meanwhile may be lost, and is learnt again.
        for remembered in (learnt, converted):
            if len(remembered.places) <= MOST and remembered.rows.nbytes <= MOST_BYTES:
                self._known = remembered
                break
        return learnt

    def _copied(self, known: _CachedRows[Key], key: Key, count: int) -> _Copies:
        """Returns as many copies as are wanted, or as many as there may be."""
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
