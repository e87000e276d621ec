"""Converts between Arrow types that JSON has no values of and the physical types that are read in their place.

Dates, times and timestamps are ISO 8601 strings, bytes are base64 strings, and a duration is a count of its unit.
"""

from __future__ import annotations

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types

from frazil.formats.nested_arrays import with_items

_ZONE = r"\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d(:?\d\d)?)$"
_TOO_FINE = {"s": r"()\.\d+", "ms": r"(\.\d{3})\d+", "us": r"(\.\d{6})\d+", "ns": r"(\.\d{9})\d+"}


def physical_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type to read from JSON where `kind` is wanted."""
    if types.is_temporal(kind) and not types.is_duration(kind):
        return pa.string()
    if types.is_binary(kind) or types.is_fixed_size_binary(kind):
        return pa.string()
    if types.is_float16(kind):
        return pa.float32()
    if types.is_duration(kind):
        return pa.int64()
    if types.is_struct(kind):
        return pa.struct([f.with_type(physical_type(f.type)) for f in kind.fields])
    if types.is_list(kind):
        return pa.list_(kind.value_field.with_type(physical_type(kind.value_type)))
    if types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(physical_type(kind.item_type)))
    return kind


def from_physical(array: pa.Array, wanted: pa.DataType, *, spare: bool) -> pa.Array:
    """Converts an array of the physical type to the wanted type. Raises `pa.ArrowInvalid` if a value is not valid.

    With `spare`, fields of structs that `wanted` does not have are kept; without it they are dropped.
    """
    if array.type.equals(wanted):
        return _checked(array)
    if types.is_struct(wanted) and types.is_struct(array.type):
        return _restore_struct(array, wanted, spare)
    if types.is_list(wanted) and types.is_list(array.type):
        items = from_physical(array.values, wanted.value_type, spare=spare)
        return with_items(array, pa.list_(wanted.value_field.with_type(items.type)), items)
    if types.is_map(wanted) and types.is_map(array.type):
        items = from_physical(array.items, wanted.item_type, spare=spare)
        kind = pa.map_(wanted.key_type, wanted.item_field.with_type(items.type))
        entries = pa.StructArray.from_arrays([array.keys, items], fields=[kind.key_field, kind.item_field])
        return with_items(array, kind, entries)
    if types.is_timestamp(wanted):
        return _timestamps(array, wanted)
    if types.is_time(wanted):
        days = pc.binary_join_element_wise("1970-01-01T", array, "")
        return _timestamps(days, pa.timestamp(wanted.unit)).cast(wanted)
    if types.is_binary(wanted) or types.is_fixed_size_binary(wanted):
        return _from_base64(array).cast(wanted)
    return array.cast(wanted)


def _restore_struct(array: pa.Array, wanted: pa.DataType, spare: bool) -> pa.Array:
    children, fields = [], []
    # Flattening hides the values under structs that are null as a whole.
    for field, child in zip(array.type.fields, array.flatten(), strict=True):
        place = wanted.get_field_index(field.name)
        if place >= 0:
            field = wanted.field(place)
            child = from_physical(child, field.type, spare=spare)
        elif not spare:
            continue
        children.append(child)
        fields.append(field.with_type(child.type))
    mask = array.is_null() if array.null_count else None
    if not fields:
        return pa.array([{}] * len(array), pa.struct([]), mask=mask)
    return pa.StructArray.from_arrays(children, fields=fields, mask=mask)


def _checked(array: pa.Array) -> pa.Array:
    """Raises `pa.ArrowInvalid` for numbers that Arrow's parser lets through, though JSON has none such or their type
    is too small."""
    kind = array.type
    if types.is_floating(kind):
        if not pc.all(pc.is_finite(array), min_count=0).as_py():
            raise pa.ArrowInvalid("a number is not finite, or too large")
    elif types.is_decimal(kind):
        array.validate(full=True)
    elif types.is_struct(kind):
        for index in range(kind.num_fields):
            _checked(array.field(index))
    elif types.is_list(kind):
        _checked(array.values)
    elif types.is_map(kind):
        _checked(array.items)
    return array


def _timestamps(texts: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Parses timestamps. Those without a zone are UTC; digits beyond the unit are cut off."""
    try:
        return texts.cast(wanted)
    except pa.ArrowInvalid:
        texts = pc.replace_substring_regex(texts, _TOO_FINE[wanted.unit], r"\1")
    zoned = pc.match_substring_regex(texts, _ZONE)
    with_zone = pc.if_else(zoned, texts, None).cast(pa.timestamp(wanted.unit, "UTC"))
    without = pc.if_else(zoned, None, texts).cast(pa.timestamp(wanted.unit))
    counts = pc.coalesce(with_zone.cast(pa.int64()), without.cast(pa.int64()))
    return counts.cast(pa.timestamp(wanted.unit)).cast(wanted) if wanted.tz is None else counts.cast(wanted)


def _from_base64(texts: pa.Array) -> pa.Array:
    try:
        decoded = pl.Series(texts).str.decode("base64", strict=True)
    except pl.exceptions.ComputeError as error:
        raise pa.ArrowInvalid("a string is not base64") from error
    return decoded.to_arrow().cast(pa.binary())
