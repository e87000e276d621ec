"""Attributes as two columns: a map from key to text, and the types of the values.

The types are one letter for each entry of the map (`values`), in its order; null where all values are text.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from frazil.lake.mapkeys import repeats_a_key
from frazil.telemetry.values import ABSENT, TEXT, from_text, to_text

TYPES = "_types"
"""What the second column is called, after the name of the first."""
MAP = pa.map_(pa.string(), pa.string())

_FEW = 20_000
"""Beyond so many, looking at each set of keys once is quicker than at each key."""
_Ints = npt.NDArray[np.int64]


class Attributes(NamedTuple):
    maps: pa.MapArray
    types: pa.Array

    def take(self, places: pa.Array) -> Attributes:
        return Attributes(self.maps.take(places), self.types.take(places))


def fields(name: str) -> list[pa.Field]:
    return [pa.field(name, MAP), pa.field(name + TYPES, pa.string())]


def of_lists(lists: pa.ListArray) -> Attributes:
    """The attributes of decoded lists of `KeyValue`; of entries with the same key the last one counts."""
    pairs = lists.flatten()
    return _of(lists, pairs.field("key"), *to_text(pairs.field("value")))


def of_texts(lists: pa.ListArray, keys: pa.Array, texts: pa.Array) -> Attributes:
    """The same where all values are text: `keys` and `texts` are those of the entries of all lists."""
    return _of(lists, keys, texts, np.full(len(keys), ord(TEXT), np.uint8))


def _of(lists: pa.ListArray, keys: pa.Array, texts: pa.Array, codes: npt.NDArray[np.uint8]) -> Attributes:
    offsets = _offsets(lists)
    if not _rising(offsets, keys) and repeats_a_key(pa.array(offsets, pa.int32()), keys):
        kept = _last_of_each(offsets, keys)
        offsets = np.searchsorted(kept, offsets)
        keys, texts, codes = keys.take(pa.array(kept)), texts.take(pa.array(kept)), codes[kept]
    borders = pa.array(offsets, pa.int32())
    maps = pa.MapArray.from_arrays(borders, keys, texts, MAP)
    return Attributes(maps, _types(borders, offsets, codes))


def to_pairs(entries: list[tuple[str, str | None]] | None, types: str | None) -> list[KeyValue]:
    """The messages again."""
    found = []
    for (key, text), letter in zip(entries or [], types or TEXT * len(entries or []), strict=True):
        pair = KeyValue(key=key)
        if letter != ABSENT:
            pair.value.CopyFrom(from_text(text, letter))
        found.append(pair)
    return found


def _offsets(lists: pa.ListArray) -> _Ints:
    """Where each list begins among all entries, and where the last one ends."""
    if not lists.null_count:
        places: _Ints = lists.offsets.to_numpy().astype(np.int64)
        places -= places[0]
        return places
    offsets: _Ints = np.zeros(len(lists) + 1, np.int64)
    np.cumsum(lists.value_lengths().fill_null(0).to_numpy(), out=offsets[1:])
    return offsets


def _rising(offsets: _Ints, keys: pa.Array) -> bool:
    """Whether the keys of each list come in the order in which they were first seen: then none comes twice.

    The quickest answer for few lists, and the usual one; false where there are many.
    """
    if len(keys) > _FEW:
        return False
    codes = keys.dictionary_encode().indices.to_numpy()
    rises = codes[1:] > codes[:-1]
    rises[offsets[(offsets > 0) & (offsets < len(codes))] - 1] = True
    return bool(rises.all())


def _last_of_each(offsets: _Ints, keys: pa.Array) -> _Ints:
    """The places of entries that no later one of their list replaces."""
    codes = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    both = rows * (int(codes.max(initial=0)) + 1) + codes
    _, from_the_end = np.unique(both[::-1], return_index=True)
    return np.sort(len(both) - 1 - from_the_end)


def _types(borders: pa.Array, offsets: _Ints, codes: npt.NDArray[np.uint8]) -> pa.Array:
    rows = len(offsets) - 1
    plain = codes == ord(TEXT)
    if plain.all():
        return pa.nulls(rows, pa.string())
    others = np.zeros(len(codes) + 1, np.int64)
    np.cumsum(~plain, out=others[1:])
    told = others[offsets[1:]] > others[offsets[:-1]]
    texts = pa.Array.from_buffers(pa.string(), rows, [None, borders.buffers()[1], pa.py_buffer(codes)])
    return pa.compute.if_else(pa.array(told), texts, pa.scalar(None, pa.string()))
