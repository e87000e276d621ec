"""Turns attributes into two columns: a map from key to text, and the types of the values.

The types are one letter for each entry of the map (`any_values`), in its order; null if all values are text.
References to a string table come after the letters (`string_references`).
"""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from opentelemetry.proto.common.v1.common_pb2 import KeyValue

from frazil.formats.map_keys import repeats_a_key
from frazil.formats.telemetry import string_references
from frazil.formats.telemetry.any_values import ABSENT, TEXT, Codes, from_text, to_text
from frazil.formats.telemetry.lists import lengths, offsets_of
from frazil.formats.telemetry.runs import Ints
from frazil.formats.telemetry.string_references import ReferencedAttribute, References
from frazil.log.schema.nulls import nulls
from frazil.log.schema.repeated_texts import if_repeated

TYPES = "_types"
"""The suffix of the second column's name."""
MAP = pa.map_(pa.string(), pa.string())


class Attributes(NamedTuple):
    maps: pa.MapArray
    types: pa.Array

    def take(self, places: pa.Array) -> Attributes:
        return Attributes(self.maps.take(places), self.types.take(places))


def fields(name: str) -> list[pa.Field]:
    return [pa.field(name, MAP), pa.field(name + TYPES, pa.string())]


def of_lists(lists: pa.ListArray, *, dictionaries: bool = False) -> Attributes:
    """Returns the attributes of decoded lists of `KeyValue`. Of entries with the same key the last one counts.

    With `dictionaries`, keys and texts that repeat are dictionary-encoded.
    """
    pairs = lists.flatten()
    keys, (texts, codes) = pairs.field("key"), to_text(pairs.field("value"))
    found = string_references.of_pairs(pairs, codes)
    if found is None:
        return _of(_offsets(lists), keys, texts, codes, dictionaries=dictionaries)
    return _with_references(_offsets(lists), keys, texts, codes, found)


def of_texts(lists: pa.ListArray, keys: pa.Array, texts: pa.Array) -> Attributes:
    """Returns attributes whose values are all text. `keys` and `texts` have the entries of all lists, one after the
    other."""
    return _of(_offsets(lists), keys, texts, np.full(len(keys), ord(TEXT), np.uint8))


def _of(offsets: Ints, keys: pa.Array, texts: pa.Array, codes: Codes, *, dictionaries: bool = False) -> Attributes:
    alike = _alike(offsets, keys)
    if dictionaries:
        keys = _as_in_the_first(offsets, keys) if alike and len(keys) else if_repeated(keys)
        texts = if_repeated(texts)
    if not alike and repeats_a_key(_places(offsets), keys):
        kept = _last_of_each(offsets, keys)
        offsets = np.searchsorted(kept, offsets)
        keys, texts, codes = keys.take(pa.array(kept)), texts.take(pa.array(kept)), codes[kept]
    places = _places(offsets)
    kind = pa.map_(keys.type, texts.type)
    return Attributes(pa.MapArray.from_arrays(places, keys, texts, kind), _types(places, offsets, codes))


def _with_references(offsets: Ints, keys: pa.Array, texts: pa.Array, codes: Codes, found: References) -> Attributes:
    """Returns attributes some of which have references. Those with a text as key are in the map; the rest of a row
    that has a reference is kept beside the types."""
    named = np.flatnonzero((found.keys == 0) | (lengths(keys) > 0))
    kept = named[_last_of_each(np.searchsorted(named, offsets), keys.take(pa.array(named)))]
    ends = np.searchsorted(kept, offsets)
    maps, types = _of(ends, keys.take(pa.array(kept)), texts.take(pa.array(kept)), codes[kept])
    beside = np.ones(len(keys), bool)
    beside[kept] = False
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    chosen = np.zeros(len(offsets) - 1, bool)
    chosen[rows[found.present]] = True
    at = np.flatnonzero(found.present | (beside & chosen[rows]))
    referenced = map(
        ReferencedAttribute,
        (at - offsets[rows[at]]).tolist(),
        beside[at].tolist(),
        *(column.take(pa.array(at)).to_pylist() for column in (keys, texts)),
        codes[at].tobytes().decode(),
        found.keys[at].tolist(),
        found.values.take(pa.array(at)).to_pylist(),
    )
    letters = codes[kept].tobytes().decode()
    written = [
        string_references.with_letters(letters[ends[row] : ends[row + 1]], islice(referenced, count))
        for row, count in zip(*(each.tolist() for each in np.unique(rows[at], return_counts=True)), strict=True)
    ]
    return Attributes(maps, pc.replace_with_mask(types, pa.array(chosen), pa.array(written, pa.string())))


def to_pairs(entries: list[tuple[str, str | None]] | None, types: str | None) -> list[KeyValue]:
    """Turns a row's attributes into messages again."""
    found = []
    letters, _, references = (types or TEXT * len(entries or [])).partition(string_references.BLANK)
    for (key, text), letter in zip(entries or [], letters, strict=True):
        pair = KeyValue(key=key)
        if letter != ABSENT:
            pair.value.CopyFrom(from_text(text, letter))
        found.append(pair)
    return list(string_references.completed(found, references)) if references else found


def _offsets(lists: pa.ListArray) -> Ints:
    """Returns where each list begins among all entries, and where the last one ends."""
    if not lists.null_count:
        places = offsets_of(lists)
        places -= places[0]
        return places
    offsets: Ints = np.zeros(len(lists) + 1, np.int64)
    np.cumsum(lists.value_lengths().fill_null(0).to_numpy(), out=offsets[1:])
    return offsets


def _places(offsets: Ints) -> pa.Array:
    return pa.Array.from_buffers(pa.int32(), len(offsets), [None, pa.py_buffer(offsets.astype(np.int32))])


def _alike(offsets: Ints, keys: pa.Array) -> bool:
    """Returns whether all lists have the same keys in the same order, none of them twice. This is the usual case."""
    rows, width = len(offsets) - 1, int(offsets[1]) if len(offsets) > 1 else 0
    if not len(keys):
        return True
    if width == 0 or rows * width != len(keys) or (offsets[1:] - offsets[:-1] != width).any():
        return False
    ends = offsets_of(keys)
    sizes = (ends[1:] - ends[:-1]).reshape(rows, width)
    if (sizes != sizes[0]).any():
        return False
    if ends[-1] > ends[0]:
        texts = np.frombuffer(keys.buffers()[2], np.uint8)[ends[0] : ends[-1]].reshape(rows, -1)
        if (texts != texts[0]).any():
            return False
    return len(set(keys.slice(0, width).to_pylist())) == width


def _as_in_the_first(offsets: Ints, keys: pa.Array) -> pa.Array:
    """Dictionary-encodes the keys of lists that all have the same keys."""
    width = int(offsets[1])
    places = np.tile(np.arange(width, dtype=np.int32), len(offsets) - 1)
    return pa.DictionaryArray.from_arrays(pa.array(places), pa.concat_arrays([keys.slice(0, width)]))


def _last_of_each(offsets: Ints, keys: pa.Array) -> Ints:
    """Returns the positions of entries that no later entry of their list replaces."""
    codes = keys.dictionary_encode().indices.to_numpy().astype(np.int64)
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    both = rows * (int(codes.max(initial=0)) + 1) + codes
    _, from_the_end = np.unique(both[::-1], return_index=True)
    return np.sort(len(both) - 1 - from_the_end)


def _types(places: pa.Array, offsets: Ints, codes: Codes) -> pa.Array:
    rows = len(offsets) - 1
    plain = codes == ord(TEXT)
    if plain.all():
        return nulls(rows, pa.string())
    others = np.zeros(len(codes) + 1, np.int64)
    np.cumsum(~plain, out=others[1:])
    typed = others[offsets[1:]] > others[offsets[:-1]]
    texts = pa.Array.from_buffers(pa.string(), rows, [None, places.buffers()[1], pa.py_buffer(codes)])
    if typed.all():
        return texts
    return pc.if_else(pa.array(typed), texts, pa.scalar(None, pa.string()))
