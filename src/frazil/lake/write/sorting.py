"""Sorts the rows of a data file by the table's sort order.

Each row gets one integer that stands for all its sort keys. So one sort of integers orders the rows, and one
comparison finds out whether they are in order already. The values of a key become the smallest integers that keep
their order: the differences to the lowest value, or ranks.
"""

from __future__ import annotations

from functools import total_ordering
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortOrder

from frazil.lake.schema.arrow import column_getter
from frazil.lake.write.transforms import kernel

_LIMIT = 2**62


SortKey = tuple[tuple[Any, ...], ...]


class Ranks(NamedTuple):
    """One integer per row. None is null or negative, and all are below `size`."""

    values: pa.Array
    size: int


class Sorter:
    """Orders the rows of a table by its sort order."""

    def __init__(self, order: SortOrder, schema: Schema) -> None:
        self._keys = [
            (
                column_getter(schema, field.source_id),
                kernel(field.transform, schema.find_type(field.source_id)),
                field.direction == SortDirection.DESC,
                field.null_order == NullOrder.NULLS_FIRST,
            )
            for field in order.fields
        ]

    @property
    def trivial(self) -> bool:
        """Returns whether the table has no sort order, so that rows stay as they are."""
        return not self._keys

    def key(self, rows: pa.RecordBatch, place: int) -> SortKey:
        """Returns the sort key of one row as a tuple. Tuples of rows in different files compare as the rows do."""
        row = rows.slice(place, 1)
        return tuple(
            _comparable(change(get(row)), descending, nulls_first)
            for get, change, descending, nulls_first in self._keys
        )

    def order(self, rows: pa.Table | pa.RecordBatch, leading: Ranks | None = None) -> pa.Array | None:
        """Returns the row indices in order, first by `leading`, or None if the rows are in order already."""
        combined = self._ranks(rows, leading)
        if combined is None or _in_order(combined.values):
            return None
        return pc.array_sort_indices(combined.values)

    def in_order(self, rows: pa.Table | pa.RecordBatch) -> bool:
        combined = self._ranks(rows, None)
        return combined is None or _in_order(combined.values)

    def _ranks(self, rows: pa.Table | pa.RecordBatch, leading: Ranks | None) -> Ranks | None:
        combined = leading
        for get, change, descending, nulls_first in self._keys:
            ranks = rank(change(get(rows)), descending, nulls_first)
            combined = ranks if combined is None else _combine(combined, ranks)
        return combined


def rank(array: pa.Array, descending: bool, nulls_first: bool) -> Ranks:
    numbers = _numbers(array)
    bounds = pc.min_max(numbers)
    if not bounds["min"].is_valid:
        return Ranks(pa.repeat(pa.scalar(0, pa.int64()), len(array)), 1)
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if high - low >= _LIMIT:
        dense = pc.rank(numbers, tiebreaker="dense").cast(pa.int64())
        # Arrow ranks nulls last, but they are to stay null.
        numbers = pc.if_else(numbers.is_valid(), dense, None)
        low, high = 1, len(array)
    span = high - low
    ranks = pc.subtract(high, numbers) if descending else pc.subtract(numbers, low)
    if not ranks.null_count:
        return Ranks(ranks, span + 1)
    if nulls_first:
        return Ranks(pc.add(ranks, 1).fill_null(0), span + 2)
    return Ranks(ranks.fill_null(span + 1), span + 2)


def _comparable(value: pa.Array, descending: bool, nulls_first: bool) -> tuple[Any, ...]:
    """Returns a tuple that compares as the only value of the array does."""
    number = _plain_numbers(value)
    found = (value if number is None else number)[0].as_py()
    if found is None:
        return (0,) if nulls_first else (2,)
    if not descending:
        return (1, found)
    return (1, _Reversed(found) if number is None else -found)


@total_ordering
class _Reversed:
    """A value that comes before all lower ones."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Reversed) and bool(self._value == other._value)

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other._value < self._value)

    def __hash__(self) -> int:
        return hash(self._value)


def _numbers(array: pa.Array) -> pa.Array:
    """Returns integers that have the order of the values. Nulls stay null."""
    numbers = _plain_numbers(array)
    if numbers is not None:
        return numbers
    coded = array.dictionary_encode()
    return pc.rank(coded.dictionary, tiebreaker="dense").cast(pa.int64()).take(coded.indices)


def _plain_numbers(array: pa.Array) -> pa.Array | None:
    """Returns integers that do not depend on the other values of the array, or None for texts and the like."""
    kind: Any = array.type
    if types.is_integer(kind) or types.is_boolean(kind):
        return array.cast(pa.int64())
    if types.is_date32(kind):
        return array.view(pa.int32()).cast(pa.int64())
    if types.is_timestamp(kind) or types.is_time64(kind):
        return array.view(pa.int64())
    if types.is_float32(kind):
        return _float_bits(array, pa.int32(), 0x7FFF_FFFF).cast(pa.int64())
    if types.is_float64(kind):
        return _float_bits(array, pa.int64(), 0x7FFF_FFFF_FFFF_FFFF)
    return None


def _float_bits(array: pa.Array, integer: pa.DataType, mask: int) -> pa.Array:
    """Returns the bits of floats as integers in Iceberg's order: -0 before 0, and NaN last.

    That is the order of the bits, except that the order of negative floats has to be reversed.
    """
    one_nan = pc.if_else(pc.is_nan(array), pa.scalar(float("nan"), array.type), array)
    bits = one_nan.view(integer)
    return pc.if_else(pc.less(bits, pa.scalar(0, integer)), pc.bit_wise_xor(bits, pa.scalar(mask, integer)), bits)


def _combine(first: Ranks, second: Ranks) -> Ranks:
    """Returns ranks by the first key, then by the second."""
    if first.size * second.size >= _LIMIT:
        first = _dense(first)
    if first.size * second.size >= _LIMIT:
        second = _dense(second)
    size = first.size * second.size
    return Ranks(pc.add(pc.multiply(first.values, second.size), second.values), size)


def _dense(ranks: Ranks) -> Ranks:
    return Ranks(pc.rank(ranks.values, tiebreaker="dense").cast(pa.int64()), len(ranks.values) + 1)


def _in_order(values: pa.Array) -> bool:
    return len(values) < 2 or bool(pc.all(pc.less_equal(values[:-1], values[1:])).as_py())
