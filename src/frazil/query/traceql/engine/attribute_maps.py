"""Finds what rows have under a key of their attributes."""

from __future__ import annotations

import json
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.telemetry.any_values import ARRAY, BOOL, DOUBLE, INT, TEXT
from frazil.query.traceql.engine.values import Column, Ints, Kind, Values, nils

Letters = npt.NDArray[np.uint8]


class AttributeMap:
    """Is a column of attributes: maps from key to text, and the types of the values."""

    def __init__(self, maps: pa.MapArray, types: pa.Array) -> None:
        self.count = len(maps)
        offsets = maps.offsets.to_numpy().astype(np.int64)
        first, last = (int(offsets[0]), int(offsets[-1])) if len(offsets) else (0, 0)
        self._offsets = offsets - first
        self._keys = maps.keys.slice(first, last - first)
        self._items = maps.items.slice(first, last - first)
        self._types = types if pa.types.is_string(types.type) else types.cast(pa.string())

    @cached_property
    def _coded_keys(self) -> tuple[Ints, dict[str, int]]:
        keys = self._keys if pa.types.is_dictionary(self._keys.type) else self._keys.dictionary_encode()
        # Two dictionaries that were joined may have the same key twice.
        merged = keys.dictionary.dictionary_encode()
        codes = merged.indices.to_numpy()[keys.indices.to_numpy()] if len(keys) else np.zeros(0, np.int64)
        return codes, {key: code for code, key in enumerate(merged.dictionary.to_pylist())}

    @property
    def keys(self) -> list[str]:
        """Returns the keys that at least one row has."""
        codes, known = self._coded_keys
        names = list(known)
        return [names[code] for code in np.unique(codes).tolist()]

    def column(self, key: str) -> Column:
        codes, known = self._coded_keys
        if key not in known:
            return Column(nils(0), np.full(self.count, -1, np.int64))
        places = np.flatnonzero(codes == known[key])
        rows = np.searchsorted(self._offsets, places, "right") - 1
        found, values = self._typed(places, rows)
        of_rows = np.full(self.count, -1, np.int64)
        of_rows[rows] = found
        return Column(values, of_rows)

    def _typed(self, places: Ints, rows: Ints) -> tuple[Ints, Values]:
        """Returns codes of the values at these places, and the values."""
        texts = self._items.take(pa.array(places))
        encoded = texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy().astype(np.int64)
        letters = self._letters(places, rows)
        used, inverse = np.unique(codes * 256 + letters, return_inverse=True)
        distinct = encoded.dictionary.cast(pa.string()).take(pa.array(used >> 8, mask=used < 0))
        return inverse.astype(np.int64), parsed(distinct, (used & 255).astype(np.uint8))

    def _letters(self, places: Ints, rows: Ints) -> Letters:
        """Returns the letter of each entry, which says its type."""
        found = np.full(len(places), ord(TEXT), np.uint8)
        types = self._types
        if types.null_count == len(types):
            return found
        typed = types.is_valid().to_numpy(zero_copy_only=False)[rows]
        starts = np.frombuffer(types.buffers()[1], np.int32)[types.offset : types.offset + len(types) + 1]
        data = np.frombuffer(types.buffers()[2], np.uint8)
        at = starts[rows[typed]].astype(np.int64) + places[typed] - self._offsets[rows[typed]]
        found[typed] = data[at]
        return found


def parsed(texts: pa.Array, letters: Letters) -> Values:
    """Reads distinct values: text, and a letter that says what was written so."""
    count = len(texts)
    kinds, ints = np.zeros(count, np.uint8), np.zeros(count, np.int64)
    floats = np.zeros(count)
    present = texts.is_valid().to_numpy(zero_copy_only=False)
    kinds[(letters == ord(TEXT)) & present] = Kind.STRING
    for letter, kind, numbers, arrow in (
        (INT, Kind.INT, ints, pa.int64()),
        (DOUBLE, Kind.FLOAT, floats, pa.float64()),
    ):
        chosen = np.flatnonzero((letters == ord(letter)) & present)
        if len(chosen):
            numbers[chosen] = texts.take(pa.array(chosen)).cast(arrow).to_numpy()
            kinds[chosen] = kind
    chosen = np.flatnonzero((letters == ord(BOOL)) & present)
    if len(chosen):
        ints[chosen] = pc.equal(texts.take(pa.array(chosen)), "true").to_numpy(zero_copy_only=False)
        kinds[chosen] = Kind.BOOLEAN
    for place in np.flatnonzero((letters == ord(ARRAY)) & present).tolist():
        if _is_of_one_type(json.loads(texts[place].as_py())):
            kinds[place] = Kind.ARRAY
    return Values(kinds, ints, floats, texts)


def _is_of_one_type(elements: list[Any]) -> bool:
    kinds = {type(element) for element in elements}
    return len(kinds) == 1 and kinds <= {str, int, float, bool}
