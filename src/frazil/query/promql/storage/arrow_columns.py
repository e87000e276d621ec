"""Turns columns of Arrow into arrays of numpy: times, numbers, and fingerprints of maps and texts."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]

_PER_MILLISECOND = {"ns": 1_000_000, "us": 1_000}
_FACTOR = np.uint64(0x9E3779B97F4A7C15)


class Entries(NamedTuple):
    """Has the entries of maps, or the items of lists, one row after the other."""

    offsets: Ints
    keys: pa.Array
    items: pa.Array

    @property
    def rows(self) -> Ints:
        """Returns the row of each entry."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


def entries(maps: pa.MapArray) -> Entries:
    offsets = maps.offsets.to_numpy().astype(np.int64)
    count = int(offsets[-1] - offsets[0])
    first = int(offsets[0])
    return Entries(offsets - first, maps.keys.slice(first, count), maps.items.slice(first, count))


def milliseconds(column: pa.Array) -> Ints:
    """Returns times in milliseconds since 1970, rounded down; 0 stands for null."""
    kind = column.type
    numbers = column.cast(pa.int64()) if kind.unit != "ms" else column.view(pa.int64())
    found = ints(numbers)
    return found if kind.unit == "ms" else found // _PER_MILLISECOND[kind.unit]


def ints(column: pa.Array) -> Ints:
    """Returns whole numbers; 0 stands for null."""
    if column.null_count:
        column = column.fill_null(0)
    return np.asarray(column.to_numpy(zero_copy_only=False), np.int64)


def floats(column: pa.Array) -> Floats:
    """Returns numbers with all their bits; NaN stands for null."""
    if column.null_count:
        column = column.fill_null(float("nan"))
    return np.asarray(column.to_numpy(zero_copy_only=False), np.float64)


def valid(column: pa.Array) -> Mask:
    """Returns where a column is not null."""
    if not column.null_count:
        return np.ones(len(column), bool)
    return np.asarray(column.is_valid().to_numpy(zero_copy_only=False), bool)


def text_hashes(column: pa.Array, seed: int = 0) -> Words:
    """Returns a hash of each text, which holds within this process only."""
    if isinstance(column, pa.DictionaryArray):
        hashes = text_hashes(column.dictionary, seed)
        return np.asarray(hashes[column.indices.fill_null(0).to_numpy()])
    return np.asarray(pl.Series(column).hash(seed).to_numpy(), np.uint64)


def map_hashes(maps: pa.MapArray) -> Words:
    """Returns a hash of each map, which does not depend on the order of its entries."""
    found = entries(maps)
    if not len(found.keys):
        return np.zeros(len(maps), np.uint64)
    sums = np.zeros(len(found.keys) + 1, np.uint64)
    np.cumsum(mixed(text_hashes(found.keys, 1), text_hashes(found.items, 2)), out=sums[1:])
    return np.asarray(sums[found.offsets[1:]] - sums[found.offsets[:-1]], np.uint64)


def mixed(one: Words, other: Words | np.uint64) -> Words:
    """Returns hashes of pairs."""
    with np.errstate(over="ignore"):
        found = (one ^ (other + _FACTOR)) * _FACTOR
        found ^= found >> np.uint64(29)
        found *= np.uint64(0xBF58476D1CE4E5B9)
        return np.asarray(found ^ (found >> np.uint64(32)), np.uint64)


def list_values(column: pa.ListArray) -> tuple[Ints, pa.Array]:
    """Returns where the items of each row begin and end, and all items."""
    offsets = column.offsets.to_numpy().astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    return offsets - first, column.values.slice(first, last - first)


def runs(offsets: Ints, wanted: Any) -> tuple[Ints, Ints]:
    """Returns the positions of the items of some rows, and their new offsets."""
    starts, lengths = offsets[:-1][wanted], np.diff(offsets)[wanted]
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    positions = np.arange(ends[-1]) + np.repeat(starts - ends[:-1], lengths)
    return positions, ends
