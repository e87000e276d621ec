"""Sums up rows in one number that does not depend on their order, so that rewritten rows can be compared.

Each value gets a hash, each row one of its values, and the sum of those is the checksum. A row that is lost, repeated
or changed, in any column, changes the sum.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa
import pyarrow.types as types

Hashes = npt.NDArray[np.uint64]

_NULL = np.uint64(0x9E3779B97F4A7C15)
_STEP = np.uint64(0xD1B54A32D192ED03)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_SHIFTS = (np.uint64(30), np.uint64(27), np.uint64(31))
_WORD = 8


class RowChecksum:
    """The number of rows that were added, and their checksum."""

    def __init__(self) -> None:
        self.rows = 0
        self.sum = 0

    def add(self, rows: pa.RecordBatch) -> None:
        if not len(rows):
            return
        self.rows += len(rows)
        hashes = _combined([_hashes(column) for column in rows.columns], len(rows))
        self.sum = (self.sum + int(hashes.sum(dtype=np.uint64))) % 2**64

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RowChecksum) and (self.rows, self.sum) == (other.rows, other.sum)

    def __hash__(self) -> int:
        return hash((self.rows, self.sum))


def _combined(columns: list[Hashes], count: int) -> Hashes:
    found = np.zeros(count, np.uint64)
    for place, column in enumerate(columns):
        found += _mixed(column + np.uint64((place + 1) * int(_STEP) % 2**64))
    return _mixed(found)


def _mixed(numbers: Hashes) -> Hashes:
    """Mixes the bits of each number. It changes the array, which nobody else may have."""
    numbers ^= numbers >> _SHIFTS[0]
    numbers *= _FIRST
    numbers ^= numbers >> _SHIFTS[1]
    numbers *= _SECOND
    numbers ^= numbers >> _SHIFTS[2]
    return numbers


def _hashes(array: pa.Array) -> Hashes:
    """Returns a hash of each value. Equal values have equal hashes, however the array stores them."""
    if array.null_count == len(array):
        return np.full(len(array), _NULL)
    if isinstance(array, pa.ExtensionArray):
        return _hashes(array.storage)
    found = _hashes_of_values(array)
    if array.null_count:
        found = np.where(array.is_null().to_numpy(zero_copy_only=False), _NULL, found)
    return found


def _hashes_of_values(array: Any) -> Hashes:
    kind = array.type
    if types.is_dictionary(kind):
        places = array.indices.fill_null(0).to_numpy()
        return np.asarray(_hashes(array.dictionary)[places], np.uint64)
    if types.is_struct(kind):
        return _combined([_hashes(part) for part in array.flatten()], len(array))
    if types.is_map(kind):
        return _of_lists(array, [array.keys, array.items])
    if types.is_list(kind) or types.is_large_list(kind):
        return _of_lists(array, [array.values])
    if types.is_boolean(kind):
        return _hashes_of_values(array.cast(pa.uint8()))
    if types.is_primitive(kind) or types.is_decimal(kind) or types.is_fixed_size_binary(kind):
        return _of_fixed_width(array)
    hashes: Hashes = pl.Series(pl.from_arrow(array)).hash().to_numpy()
    return hashes


def _of_fixed_width(array: pa.Array) -> Hashes:
    width = array.type.byte_width
    if width > _WORD and width % _WORD:
        return _hashes_of_values(array.cast(pa.binary()))
    data = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * width : (array.offset + len(array)) * width]
    if width <= _WORD and width & (width - 1) == 0:
        return _mixed(data.view(f"u{width}").astype(np.uint64))
    if width < _WORD:
        return _hashes_of_values(array.cast(pa.binary()))
    words = data.view(np.uint64).reshape(len(array), width // _WORD)
    return _combined([words[:, place].copy() for place in range(words.shape[1])], len(array))


def _of_lists(array: Any, parts: list[pa.Array]) -> Hashes:
    """Returns the hashes of lists or maps: of their elements with the places of those, and of their lengths."""
    offsets = array.offsets.to_numpy().astype(np.int64)
    start, end = int(offsets[0]), int(offsets[-1])
    lengths = np.diff(offsets)
    places = np.arange(end - start) - np.repeat(offsets[:-1] - start, lengths)
    elements = _combined([_hashes(part.slice(start, end - start)) for part in parts], end - start)
    sums = np.zeros(end - start + 1, np.uint64)
    np.cumsum(_mixed(elements + places.astype(np.uint64) * _STEP), out=sums[1:])
    found = sums[offsets[1:] - start] - sums[offsets[:-1] - start]
    return _mixed(found + lengths.astype(np.uint64) * _STEP)
