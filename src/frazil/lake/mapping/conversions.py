"""Converts columns of a topic to columns of its table, a whole column at a time.

A conversion either succeeds for all values or raises. Then the caller finds out which rows caused it. Nothing is
copied where the types are equal.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from frazil.formats.map_keys import repeats_a_key
from frazil.formats.valid_text import valid_text
from frazil.lake.mapping.dictionaries import keep_dictionaries
from frazil.lake.schema.types import convert, is_nanoseconds
from frazil.log.schema.nulls import are_null, nulls
from frazil.log.schema.repeated_texts import extent
from frazil.log.schema.schema import has_dictionary, plain_type

Conversion = Callable[[pa.Array], pa.Array]

_MAX_PRECISION = 38
_INTEGERS = {
    pa.int8(): 3,
    pa.int16(): 5,
    pa.int32(): 10,
    pa.int64(): 19,
    pa.uint8(): 3,
    pa.uint16(): 5,
    pa.uint32(): 10,
    pa.uint64(): 20,
}
"""This is how many decimal digits the values of an integer type may have."""
_WIDENED = {
    pa.int32(): {pa.int8(), pa.int16(), pa.uint8(), pa.uint16()},
    pa.int64(): {pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16(), pa.uint32()},
    pa.float32(): {pa.float16()},
    pa.float64(): {pa.float16(), pa.float32()},
    pa.date32(): {pa.date64()},
    pa.string(): {pa.large_string(), pa.string_view()},
    pa.binary(): {pa.large_binary(), pa.binary_view()},
}


class Unfit(ValueError):
    """Raised when values of a column cannot be values of the table's column; the message says why."""


class Conversions:
    """Makes conversions and collects the problems of the types.

    There is a conversion even for a type that does not fit: it tries Arrow's cast, and many values will fail.
    """

    def __init__(self) -> None:
        self.problems: list[str] = []

    def column(self, source: pa.DataType, target: pa.Field, path: str) -> Conversion:
        """Returns the conversion of a column, or of values inside one.

        It checks for nulls if the field is required.
        """
        change = self._of(source, target.type, path)
        return change if target.nullable else required(change)

    def missing(self, target: pa.Field, path: str) -> Conversion:
        """Returns the conversion for a column of the table that the topic lacks. It makes nulls."""
        if not target.nullable:
            self.problems.append(f"column {path!r} is required in the table, but the topic has none")
            return required(lambda array: pa.nulls(len(array), target.type))
        return lambda array: pa.nulls(len(array), target.type)

    def unknown(self, source: pa.DataType, path: str) -> Conversion | None:
        """Returns the conversion for a column of the topic that the table lacks. It raises if there are values.

        Returns None if the column has had only nulls, because then it is not needed.
        """
        if convert(plain_type(source), path) is None:
            return None
        self.problems.append(f"column {path!r} is not in the table")
        return _refuse("the table has no such column")

    def _of(self, source: pa.DataType, target: pa.DataType, path: str) -> Conversion:
        if types.is_null(source):
            return lambda array: pa.nulls(len(array), target)
        if types.is_fixed_size_list(source):
            plain = pa.list_(source.value_field)
            change = self._of(plain, target, path)
            return lambda array: change(array.cast(plain))
        if types.is_struct(source) and has_dictionary(source):
            return self._decoded(source, target, path)
        if types.is_struct(source) and types.is_struct(target):
            return self._struct(source, target, path)
        if types.is_map(source) and types.is_map(target):
            return self._map(source, target, path)
        if types.is_list(source) and types.is_list(target):
            return self._list(source, target, path)
        return self._leaf(source, target, path)

    def _decoded(self, source: pa.DataType, target: pa.DataType, path: str) -> Conversion:
        """Returns a conversion that decodes dictionaries first, for types that cannot keep them."""
        plain = plain_type(source)
        change = self._of(plain, target, path)
        return lambda array: change(array.cast(plain))

    def _struct(self, source: pa.DataType, target: pa.DataType, path: str) -> Conversion:
        parts: list[tuple[int | None, pa.Field, Conversion]] = []
        for field in target.fields:
            place = source.get_field_index(field.name)
            inner = f"{path}.{field.name}"
            if place < 0:
                parts.append((None, field, self.missing(pa.field(field.name, field.type), inner)))
                if not field.nullable:
                    self.problems.append(f"column {inner!r} is required in the table, but the topic has none")
            else:
                parts.append((place, field, self._of(source.field(place).type, field.type, inner)))
        left_out = [
            (place, refuse)
            for place, field in enumerate(source.fields)
            if target.get_field_index(field.name) < 0
            and (refuse := self.unknown(field.type, f"{path}.{field.name}")) is not None
        ]
        fields = list(target.fields)

        def change(array: pa.Array) -> pa.Array:
            nulls = array.is_null() if array.null_count else None
            columns = []
            for place, field, inner in parts:
                column = inner(array if place is None else array.field(place))
                if not field.nullable:
                    column = _present(column, nulls, field.name)
                columns.append(column)
            for place, refuse in left_out:
                refuse(array.field(place))
            return pa.StructArray.from_arrays(columns, fields=fields, mask=nulls)

        return change

    def _list(self, source: pa.DataType, target: pa.DataType, path: str) -> Conversion:
        inner = self.column(source.value_type, target.value_field, f"{path}[]")
        kept = keep_dictionaries(target, source)

        def change(array: pa.Array) -> pa.Array:
            if are_null(array):
                return nulls(len(array), kept)
            offsets, start, length = extent(array)
            values = inner(array.values.slice(start, length))
            mask = array.is_null() if array.null_count else None
            return pa.ListArray.from_arrays(offsets, values, type=kept, mask=mask)

        return change

    def _map(self, source: pa.DataType, target: pa.DataType, path: str) -> Conversion:
        key = self.column(source.key_type, target.key_field, f"{path} keys")
        item = self.column(source.item_type, target.item_field, f"{path}[]")
        kept = keep_dictionaries(target, source)

        def change(array: pa.Array) -> pa.Array:
            offsets, start, length = extent(array)
            keys = key(array.keys.slice(start, length))
            if repeats_a_key(offsets, keys):
                raise Unfit("the same key twice in a map")
            items = item(array.items.slice(start, length))
            mask = array.is_null() if array.null_count else None
            return pa.MapArray.from_arrays(offsets, keys, items, type=kept, mask=mask)

        return change

    def _leaf(self, source: pa.DataType, target: pa.DataType, path: str) -> Conversion:
        if types.is_dictionary(source) and keep_dictionaries(target, source).equals(source):
            return _valid_dictionary
        if has_dictionary(source):
            return self._decoded(source, target, path)
        if source.equals(target):
            if types.is_string(source):
                return valid_text
            return _validated if types.is_decimal(source) else lambda array: array
        if isinstance(target, pa.BaseExtensionType) and source.equals(target.storage_type):
            return lambda array: pa.ExtensionArray.from_storage(target, array)
        if isinstance(target, pa.BaseExtensionType):
            self.problems.append(f"column {path!r} is {source} in the topic and {target} in the table")
            return _refuse(f"{source} is not {target}")
        if _is_count(source) and types.is_int64(target):
            return lambda array: array.cast(_count_type(source)).cast(target)
        if not _fits(source, target):
            self.problems.append(f"column {path!r} is {source} in the topic and {target} in the table")
            return _attempt(source, target)
        return lambda array: _validated(array).cast(target)


def floor_microseconds(target: pa.DataType) -> Conversion:
    """Returns the conversion from nanoseconds since 1970 to microseconds, rounded down."""

    def change(array: pa.Array) -> pa.Array:
        counts = array.view(pa.int64())
        floor = pc.divide(counts, 1000)
        first = pc.min(counts).as_py()
        if first is not None and first < 0:
            before = pc.and_(pc.less(counts, 0), pc.not_equal(pc.modulo(counts, 1000), 0))
            floor = pc.subtract(floor, before.cast(pa.int64()))
        return floor.view(target)

    return change


def rest_of_microseconds(array: pa.Array) -> pa.Array:
    """Returns the nanoseconds, 0 to 999, that rounding down to microseconds leaves out."""
    return pc.modulo(array.view(pa.int64()), 1000).cast(pa.int32())


def _valid_dictionary(array: pa.Array) -> pa.Array:
    """Raises if any text of the dictionary is not valid UTF-8, even one that no row uses."""
    valid_text(array.dictionary)
    return array


def _validated(array: pa.Array) -> pa.Array:
    """Raises if a value is not valid. Arrow does not check that decimals fit their precision, and readers crash."""
    array.validate(full=True)
    return array


def _is_count(kind: pa.DataType) -> bool:
    """Returns whether a table stores values of this type as numbers in the unit of the type."""
    return bool(is_nanoseconds(kind) or types.is_time(kind) or types.is_duration(kind))


def _count_type(kind: pa.DataType) -> pa.DataType:
    return pa.int32() if types.is_time32(kind) else pa.int64()


def _fits(source: pa.DataType, target: pa.DataType) -> bool:
    """Returns whether the table's type suits values of the source type. Single values may still be too large."""
    if source in _WIDENED.get(target, ()):
        return True
    if types.is_timestamp(source) and types.is_timestamp(target):
        return (source.tz is None) == (target.tz is None)
    if types.is_decimal(target):
        if types.is_decimal(source):
            wide = target.precision >= source.precision or target.precision == _MAX_PRECISION
            return bool(source.scale == target.scale and wide)
        return source in _INTEGERS and _INTEGERS[source] <= target.precision - target.scale
    if types.is_time(source) and types.is_time(target):
        return True
    return bool(types.is_fixed_size_binary(source) and types.is_binary(target))


def required(change: Conversion) -> Conversion:
    def checked(array: pa.Array) -> pa.Array:
        result = change(array)
        if result.null_count:
            raise Unfit("null, where the table requires a value")
        return result

    return checked


def _present(column: pa.Array, parent_nulls: pa.Array | None, name: str) -> pa.Array:
    """Raises if a required field is null in a struct that is not null.

    Where the struct itself is null, the field gets some value instead of its null.
    """
    if not column.null_count:
        return column
    missing = column.is_null()
    if parent_nulls is not None:
        missing = pc.and_not(missing, parent_nulls)
    if pc.any(missing).as_py():
        raise Unfit(f"its part {name!r} is null, where the table requires a value")
    if types.is_nested(column.type) or isinstance(column, pa.ExtensionArray):
        return column
    buffers = [None, *(each or pa.py_buffer(b"") for each in column.buffers()[1:])]
    return pa.Array.from_buffers(column.type, len(column), buffers, 0, column.offset)


def _refuse(reason: str) -> Conversion:
    """Returns a conversion that raises for every value that is not null."""

    def refuse(array: pa.Array) -> pa.Array:
        if array.null_count < len(array):
            raise Unfit(reason)
        return array

    return refuse


def _attempt(source: pa.DataType, target: pa.DataType) -> Conversion:
    def change(array: pa.Array) -> pa.Array:
        if array.null_count == len(array):
            return pa.nulls(len(array), target)
        try:
            return _validated(_validated(array).cast(target))
        except pa.ArrowNotImplementedError as error:
            raise Unfit(f"{source} cannot be turned into {target}") from error

    return change
