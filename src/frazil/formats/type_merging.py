"""Merges the types of several schema versions into one that a table can evolve to: it has all fields, and the wider
of two number types."""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.types as types

_WIDER = {(pa.int32(), pa.int64()), (pa.float32(), pa.float64())}


def merge_schemas(schemas: Iterable[pa.Schema]) -> pa.Schema:
    """Returns the columns of all schemas. Where two types of a column clash, the first one stays."""
    return pa.schema(_fields(schemas))


def merge_types(first: pa.DataType, second: pa.DataType) -> pa.DataType | None:
    """Returns the type that holds values of both; None if they clash."""
    if first.equals(second) or types.is_null(second):
        return first
    if types.is_null(first):
        return second
    if (first, second) in _WIDER:
        return second
    if (second, first) in _WIDER:
        return first
    if types.is_decimal(first) and types.is_decimal(second) and first.scale == second.scale:
        return first if first.precision >= second.precision else second
    if types.is_struct(first) and types.is_struct(second):
        return pa.struct(_fields((first.fields, second.fields)))
    if types.is_map(first) and types.is_map(second) and first.key_type.equals(second.key_type):
        items = merge_types(first.item_type, second.item_type)
        return None if items is None else pa.map_(first.key_type, items)
    if types.is_list(first) and types.is_list(second):
        items = merge_types(first.value_type, second.value_type)
        return None if items is None else pa.list_(items)
    return None


def _fields(groups: Iterable[Iterable[pa.Field]]) -> list[pa.Field]:
    found: dict[str, pa.DataType] = {}
    for group in groups:
        for field in group:
            there = found.get(field.name)
            found[field.name] = field.type if there is None else merge_types(there, field.type) or there
    return [pa.field(name, kind) for name, kind in found.items()]
