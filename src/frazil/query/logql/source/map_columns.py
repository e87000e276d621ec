"""Takes columns of maps apart: one column of labels for each key, and distinct whole maps."""

from __future__ import annotations

from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from frazil.query.logql.columns import ABSENT, Codes, Column

_FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
_SHIFT = np.uint64(29)


class MapEntries:
    """Has the entries of a column of maps, with codes for keys and values."""

    def __init__(self, maps: pa.MapArray) -> None:
        self._rows = len(maps)
        offsets = np.asarray(maps.offsets)
        first, last = int(offsets[0]), int(offsets[-1])
        lengths = np.diff(offsets)
        self._row_of = np.repeat(np.arange(self._rows, dtype=np.int64), lengths)
        keys, items = maps.keys[first:last], maps.items[first:last]
        if maps.null_count:
            kept = pa.array(np.flatnonzero(np.asarray(maps.is_valid())[self._row_of]))
            keys, items = keys.take(kept), items.take(kept)
            self._row_of = self._row_of[np.asarray(kept)]
        self._keys, self._items = _encoded(keys), _encoded(items)

    @cached_property
    def keys(self) -> list[str]:
        return self._keys.texts

    def column(self, *keys: str) -> Column:
        """Returns the values under the first of the keys that a row has."""
        codes = np.full(self._rows, ABSENT, np.int32)
        for key in reversed(keys):
            if key in self._number_of_key:
                chosen = self._keys.codes == self._number_of_key[key]
                codes[self._row_of[chosen]] = self._items.codes[chosen]
        return Column(codes, self._items.values)

    @cached_property
    def _number_of_key(self) -> dict[str, int]:
        return {key: number for number, key in enumerate(self.keys)}

    def distinct(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Returns for each row the number of its map, and for each distinct map a row that has it."""
        sums = [self._mixed(factor) for factor in _FACTORS]
        hashes = np.zeros(self._rows, np.dtype([("first", np.uint64), ("second", np.uint64)]))
        hashes["first"], hashes["second"] = sums
        _, firsts, numbers = np.unique(hashes, return_index=True, return_inverse=True)
        return numbers.astype(np.int64), firsts

    def _mixed(self, factor: np.uint64) -> NDArray[np.uint64]:
        """Adds up a hash of the entries of each map, so that their order does not count."""
        pairs = (self._keys.codes.astype(np.uint64) << np.uint64(32)) | (
            self._items.codes.astype(np.uint64) + np.uint64(1)
        )
        mixed = (pairs + np.uint64(1)) * factor
        mixed = (mixed ^ (mixed >> _SHIFT)) * _FACTORS[0]
        mixed ^= mixed >> _SHIFT
        sums = np.zeros(self._rows, np.uint64)
        np.add.at(sums, self._row_of, mixed)
        return sums

    def map_of(self, row: int) -> dict[str, str]:
        begin, end = np.searchsorted(self._row_of, [row, row + 1])
        return {
            self.keys[key]: self._items.texts[item]
            for key, item in zip(
                self._keys.codes[begin:end].tolist(), self._items.codes[begin:end].tolist(), strict=True
            )
            if item != ABSENT
        }


def _encoded(texts: pa.Array) -> Column:
    if not pa.types.is_dictionary(texts.type):
        texts = texts.dictionary_encode()
    codes: Codes = np.asarray(pc.fill_null(texts.indices.cast(pa.int32()), ABSENT))
    return Column(codes, texts.dictionary.cast(pa.string()))
