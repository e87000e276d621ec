"""Helpers for the offsets of list, map and text columns."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from frazil.formats.telemetry.runs import Ints


def offsets_of(column: pa.Array) -> Ints:
    """Returns the offsets of a column of lists, maps or texts as int64.

    Values that are null have no length, or one that does not count.
    """
    return offsets_view(column).astype(np.int64)


def offsets_view(column: pa.Array) -> npt.NDArray[np.int32]:
    """Returns the offsets as int32, without a copy."""
    if isinstance(column, pa.ListArray | pa.MapArray):
        places: npt.NDArray[np.int32] = column.offsets.to_numpy()
        return places
    buffer = column.buffers()[1]
    if buffer is None or not len(column):
        return np.zeros(len(column) + 1, np.int32)
    return np.frombuffer(buffer, np.int32)[column.offset : column.offset + len(column) + 1]


def lengths(texts: pa.Array) -> Ints:
    """Returns the lengths of texts or bytes; that of null is 0."""
    ends = offsets_of(texts)
    found: Ints = ends[1:] - ends[:-1]
    if texts.null_count:
        found[np.asarray(texts.is_null())] = 0
    return found


def total_lengths(lists: pa.ListArray) -> Ints:
    """Returns the total length of the texts or bytes in each list."""
    items, places = flat(lists)
    found: Ints = np.bincount(places, lengths(items), len(lists)).astype(np.int64)
    return found


def flat(lists: pa.ListArray) -> tuple[pa.StructArray, Ints]:
    """Returns the items of all lists, and the index of the list of each."""
    ends = offsets_of(lists)
    sizes = ends[1:] - ends[:-1]
    if lists.null_count and sizes[np.asarray(lists.is_null())].any():
        return lists.flatten(), pc.list_parent_indices(lists).to_numpy()
    return lists.values.slice(ends[0], ends[-1] - ends[0]), np.repeat(np.arange(len(lists)), sizes)


def are_empty(column: pa.Array) -> bool:
    """Returns whether the column has lists or maps that are all empty, and none of them null."""
    return isinstance(column, pa.ListArray | pa.MapArray) and not column.null_count and not len(column.values)


def empty(column: pa.Array, count: int) -> pa.Array:
    """Returns so many empty values of a column of lists or maps."""
    places = pa.array(np.zeros(count + 1, np.int32))
    if isinstance(column, pa.MapArray):
        return pa.MapArray.from_arrays(places, column.keys, column.items, type=column.type)
    return pa.ListArray.from_arrays(places, column.values, type=column.type)


def joined_bytes(lists: pa.ListArray) -> pa.Array:
    """Concatenates the byte strings in each list; null where a list is empty."""
    parts = lists.flatten()
    ends = offsets_of(lists)
    ends -= ends[0]
    sizes = ends[1:] - ends[:-1]
    if (sizes == 1).all():
        return parts
    if (sizes <= 1).all():
        return parts.take(pa.array(ends[:-1], mask=sizes == 0))
    found = parts.to_pylist()
    whole = [
        b"".join(filter(None, found[start:end])) if start < end else None for start, end in pairwise(ends.tolist())
    ]
    return pa.array(whole, pa.binary())
