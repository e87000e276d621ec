"""Converts what the Protobuf decoder returns into columns; each field has the conversion that it needs.

Conversions take whole columns. Values that cannot be converted become null, and are returned with the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pool import DescriptorPool

from frazil.errors import SchemaUnsupported
from frazil.formats.nested_arrays import with_items
from frazil.formats.protobuf.message_json import to_json

NANOSECONDS = "_ns"
"""The suffix of the column that holds the nanoseconds of a timestamp that microseconds leave out."""

_SECONDS = (-62_135_596_800, 253_402_300_799)
"""The range of seconds in the years 1 to 9999."""
_DURATION_SECONDS = (-9_223_372_035, 9_223_372_035)
"""The range of seconds that can be counted in nanoseconds: 292 years."""
_LAST_NANO = 999_999_999

Faults = dict[int, str]
"""The positions of values that cannot be converted, each with the reason."""


class ConvertedColumn(NamedTuple):
    array: pa.Array
    faults: Faults


class ColumnConversion(NamedTuple):
    kind: pa.DataType
    convert: Callable[[pa.Array], ConvertedColumn]


def columns_of(message: Descriptor, decoded: pa.DataType, pool: DescriptorPool) -> ColumnConversion:
    """Returns the conversion of a whole message. `decoded` is the struct that the decoder returns for it.

    Raises `SchemaUnsupported` if a field is a group, as in old schemas, because the decoder skips their values.
    """
    parts = _struct_fields(message, decoded, pool)
    taken = {field.name.lower() for field in decoded.fields}
    for place, field in enumerate(decoded.fields):
        described = message.fields_by_name[field.name]
        is_instant = _message_name(described) == "google.protobuf.Timestamp" and not _is_repeated(described)
        if is_instant and field.name.lower() + NANOSECONDS not in taken:
            parts.append((field.name + NANOSECONDS, place, ColumnConversion(pa.int32(), _nanoseconds)))
    return _struct(parts)


StructFields = list[tuple[str, int, ColumnConversion]]
"""The columns of a struct: the name of each, the index of the field that it comes from, and its conversion."""


def _struct_fields(message: Descriptor, decoded: pa.DataType, pool: DescriptorPool) -> StructFields:
    return [
        (field.name, place, _column(message.fields_by_name[field.name], field.type, pool))
        for place, field in enumerate(decoded.fields)
    ]


def _column(field: FieldDescriptor, kind: pa.DataType, pool: DescriptorPool) -> ColumnConversion:
    if field.type == FieldDescriptor.TYPE_GROUP:
        raise SchemaUnsupported(f"{field.full_name} is a group, which cannot be decoded")
    if types.is_map(kind):
        return _map(kind, _single(field.message_type.fields_by_name["value"], kind.item_type, pool))
    if _is_repeated(field):
        return _list(_single(field, kind.value_type, pool))
    return _single(field, kind, pool)


def _single(field: FieldDescriptor, kind: pa.DataType, pool: DescriptorPool) -> ColumnConversion:
    name = _message_name(field)
    if name is None:
        return _with_default(field, kind)
    if name == "google.protobuf.Timestamp":
        return ColumnConversion(pa.timestamp("us", "UTC"), _timestamps)
    if name == "google.protobuf.Duration":
        return ColumnConversion(pa.duration("ns"), _durations)
    if name == "google.protobuf.Empty":
        return ColumnConversion(
            pa.bool_(), lambda array: ConvertedColumn(pc.if_else(array.is_valid(), True, None), {})
        )
    if types.is_struct(kind):
        return _struct(_struct_fields(field.message_type, kind, pool))
    if types.is_binary(kind) and name != "google.protobuf.BytesValue":
        return ColumnConversion(pa.string(), lambda array: ConvertedColumn(*to_json(array, field.message_type, pool)))
    return _as_is(kind)


def _as_is(kind: pa.DataType) -> ColumnConversion:
    return ColumnConversion(kind, lambda array: ConvertedColumn(array, {}))


def _with_default(field: FieldDescriptor, kind: pa.DataType) -> ColumnConversion:
    """Replaces absent values by the default that the schema declares."""
    if not field.has_default_value or _is_repeated(field):
        return _as_is(kind)
    default = field.default_value
    if field.enum_type is not None:
        default = field.enum_type.values_by_number[default].name
    value = pa.scalar(default, kind)
    return ColumnConversion(
        kind, lambda array: ConvertedColumn(array.fill_null(value) if array.null_count else array, {})
    )


def _struct(parts: StructFields) -> ColumnConversion:
    fields = [pa.field(name, column.kind) for name, _, column in parts]

    def convert(array: pa.Array) -> ConvertedColumn:
        mask = array.is_null() if array.null_count else None
        faults: Faults = {}
        arrays = []
        for name, place, column in parts:
            made, wrong = column.convert(array.field(place))
            arrays.append(made)
            if wrong:
                present = {at: f"{name}: {why}" for at, why in wrong.items() if mask is None or not mask[at].as_py()}
                faults = present | faults
        if not arrays:
            return ConvertedColumn(pa.array([{}] * len(array), pa.struct([]), mask=mask), {})
        return ConvertedColumn(pa.StructArray.from_arrays(arrays, fields=fields, mask=mask), faults)

    return ColumnConversion(pa.struct(fields), convert)


def _list(item: ColumnConversion) -> ColumnConversion:
    kind = pa.list_(item.kind)

    def convert(array: pa.Array) -> ConvertedColumn:
        made, wrong = item.convert(array.values)
        return ConvertedColumn(with_items(array, kind, made), _owners(array, wrong))

    return ColumnConversion(kind, convert)


def _map(decoded: pa.DataType, item: ColumnConversion) -> ColumnConversion:
    kind = pa.map_(decoded.key_type, item.kind)

    def convert(array: pa.Array) -> ConvertedColumn:
        made, wrong = item.convert(array.items)
        entries = pa.StructArray.from_arrays([array.keys, made], fields=[kind.key_field, kind.item_field])
        return ConvertedColumn(with_items(array, kind, entries), _owners(array, wrong))

    return ColumnConversion(kind, convert)


def _owners(array: pa.Array, wrong: Faults) -> Faults:
    """Maps faults of items to the lists or maps that contain them."""
    if not wrong:
        return {}
    owners = np.searchsorted(array.offsets.to_numpy(), list(wrong), "right") - 1
    return dict(zip(owners.tolist(), wrong.values(), strict=True))


def _timestamps(array: pa.Array) -> ConvertedColumn:
    seconds, nanos, faults = _clock(array, _SECONDS, 0)
    micros = pc.add(pc.multiply(seconds, 1_000_000), pc.divide(nanos, 1000))
    return ConvertedColumn(micros.cast(pa.timestamp("us", "UTC")), faults)


def _nanoseconds(array: pa.Array) -> ConvertedColumn:
    _, nanos, _ = _clock(array, _SECONDS, 0)
    return ConvertedColumn(pc.subtract(nanos, pc.multiply(pc.divide(nanos, 1000), 1000)).cast(pa.int32()), {})


def _durations(array: pa.Array) -> ConvertedColumn:
    seconds, nanos, faults = _clock(array, _DURATION_SECONDS, -_LAST_NANO)
    return ConvertedColumn(pc.add(pc.multiply(seconds, 1_000_000_000), nanos).cast(pa.duration("ns")), faults)


def _clock(array: pa.Array, seconds_range: tuple[int, int], first_nano: int) -> tuple[pa.Array, pa.Array, Faults]:
    """Returns the seconds and nanoseconds, null where the value is null or one of them is out of range, and the
    faults."""
    seconds, nanos = array.flatten()
    nanos = nanos.cast(pa.int64())
    fine = pc.and_(_within(seconds, *seconds_range), _within(nanos, first_nano, _LAST_NANO))
    if pc.all(fine).as_py() in (True, None):
        return seconds, nanos, {}
    places = pc.indices_nonzero(pc.invert(fine)).to_pylist()
    faults = {at: f"{seconds[at]} seconds and {nanos[at]} nanoseconds are out of range" for at in places}
    return pc.if_else(fine, seconds, None), pc.if_else(fine, nanos, None), faults


def _within(array: pa.Array, first: int, last: int) -> pa.Array:
    return pc.and_(pc.greater_equal(array, first), pc.less_equal(array, last))


def _message_name(field: FieldDescriptor) -> str | None:
    return None if field.message_type is None else str(field.message_type.full_name)


def _is_repeated(field: FieldDescriptor) -> bool:
    return bool(field.label == FieldDescriptor.LABEL_REPEATED)
