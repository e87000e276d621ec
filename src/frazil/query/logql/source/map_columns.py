"""Takes columns of maps apart: one column of labels for each key, and distinct whole maps."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from frazil.query.logql.columns import ABSENT, Codes, Column, combined

_FACTORS = (np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F))
_SHIFT = np.uint64(29)


_MAP = "k"
"""The letter of a value that is a map, as `frazil.formats.telemetry.any_values` has it."""


def _rows_with_maps(types: pa.Array) -> list[int]:
    if types.null_count == len(types):
        return []
    return np.flatnonzero(np.asarray(pc.fill_null(pc.match_substring(types, _MAP), False))).tolist()


def flattened(maps: pa.MapArray, types: pa.Array, rows: list[int]) -> pa.MapArray:
    """Returns the maps with members of maps among the values under keys such as `user_name`."""
    entries = maps.to_pylist()
    for row in rows:
        letters = types[row].as_py()
        found: list[tuple[str, str | None]] = []
        for (key, text), letter in zip(entries[row] or [], letters, strict=False):
            found += _members(key, json.loads(text)) if letter == _MAP else [(key, text)]
        entries[row] = list(dict(found).items())
    return pa.array(entries, pa.map_(pa.string(), pa.string()))


def _members(key: str, value: Any) -> list[tuple[str, str | None]]:
    if isinstance(value, dict):
        return [found for name, member in value.items() for found in _members(f"{key}_{name}", member)]
    if value is None:
        return []
    return [(key, value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":")))]


class MapEntries:
    """Has the entries of a column of maps, with codes for keys and values."""

    def __init__(self, maps: pa.MapArray, types: pa.Array | None = None) -> None:
        """With the types of the values, maps among these become entries of their own, one for each member."""
        if types is not None and (holding := _rows_with_maps(types)):
            maps = flattened(maps, types, holding)
        self._rows = len(maps)
        offsets = np.asarray(maps.offsets)
        first, last = int(offsets[0]), int(offsets[-1])
        lengths = np.diff(offsets)
        self._width = _only_width(maps, lengths)
        self._row_of = np.repeat(np.arange(self._rows, dtype=np.int64), lengths)
        keys, items = maps.keys[first:last], maps.items[first:last]
        if maps.null_count:
            kept = pa.array(np.flatnonzero(np.asarray(maps.is_valid())[self._row_of]))
            keys, items = keys.take(kept), items.take(kept)
            self._row_of = self._row_of[np.asarray(kept)]
        self._stored_keys, self._stored_items = keys, items

    @cached_property
    def _keys(self) -> Column:
        if self._width and pc.all(_repeats(self._stored_keys, self._width)).as_py():
            first = _encoded(self._stored_keys[: self._width])
            return Column(np.tile(first.codes, self._rows), first.values)
        return _encoded(self._stored_keys)

    @cached_property
    def _items(self) -> Column:
        return _encoded(self._stored_items)

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
        codes = [np.asarray(pa.array(self._mixed(factor)).dictionary_encode().indices) for factor in _FACTORS]
        return combined(codes, self._rows)

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


def _only_width(maps: pa.MapArray, lengths: NDArray[np.int32]) -> int:
    """Returns how many entries each map has, if all have as many; else 0."""
    if maps.null_count or not len(lengths) or (lengths != lengths[0]).any():
        return 0
    return int(lengths[0])


def _repeats(texts: pa.Array, width: int) -> pa.Array:
    """Returns for each text but the first `width` whether it is the same as that so many places before it."""
    if pa.types.is_dictionary(texts.type):
        texts = texts.indices
    return pc.fill_null(pc.equal(texts[width:], texts[:-width]), False)


def run_starts(maps: pa.MapArray) -> NDArray[np.intp] | None:
    """Returns the rows whose map is another than that of the row before; None if that is not quickly said."""
    offsets = np.asarray(maps.offsets)
    width = _only_width(maps, np.diff(offsets))
    if not width:
        return None
    entries = slice(int(offsets[0]), int(offsets[-1]))
    same = np.asarray(_repeats(maps.keys[entries], width)) & np.asarray(_repeats(maps.items[entries], width))
    return np.flatnonzero(np.append(True, ~same.reshape(-1, width).all(axis=1)))


def _encoded(texts: pa.Array) -> Column:
    if not pa.types.is_dictionary(texts.type):
        texts = texts.dictionary_encode()
    codes: Codes = np.asarray(pc.fill_null(texts.indices.cast(pa.int32()), ABSENT))
    return Column(codes, texts.dictionary.cast(pa.string()))
