"""The types of JSON columns, learnt from many blocks that each show a part of them."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.types as types


class Conflict(Exception):
    """Raised when a column holds what no one type holds."""


def widen(known: pa.Schema, found: pa.Schema) -> pa.Schema:
    """The schema that holds both. Strings that look like dates stay strings: whether all do is chance."""
    return pa.schema(_fields(list(known), list(found), ""))


def _fields(known: list[pa.Field], found: list[pa.Field], path: str) -> list[pa.Field]:
    fresh = {field.name: field for field in found}
    result = []
    for old in known:
        new = fresh.pop(old.name, None)
        kind = _type(old.type, new.type, path + old.name) if new is not None else old.type
        result.append(pa.field(old.name, kind, old.nullable))
    result += [pa.field(new.name, _first_seen(new.type)) for new in fresh.values()]
    return result


def _type(old: pa.DataType, new: pa.DataType, path: str) -> pa.DataType:
    if old.equals(new) or types.is_null(new):
        return old
    if types.is_null(old):
        return _first_seen(new)
    if {old, new} == {pa.int64(), pa.float64()}:
        return pa.float64()
    if types.is_string(old) and types.is_timestamp(new):
        return old
    if types.is_struct(old) and types.is_struct(new):
        return pa.struct(_fields(list(old.fields), list(new.fields), f"{path}."))
    if types.is_list(old) and types.is_list(new):
        item = old.value_field
        return pa.list_(pa.field(item.name, _type(item.type, new.value_type, f"{path}[]"), item.nullable))
    raise Conflict(f"column {path!r} should be {old}, but is {new} here")


def _first_seen(kind: pa.DataType) -> pa.DataType:
    if types.is_timestamp(kind):
        return pa.string()
    if types.is_struct(kind):
        return pa.struct([pa.field(f.name, _first_seen(f.type)) for f in kind.fields])
    if types.is_list(kind):
        return pa.list_(_first_seen(kind.value_type))
    return kind


def known_part(schema: pa.Schema) -> tuple[pa.Schema, list[str]]:
    """The columns whose type is known, and the names of those that held nothing to tell it from."""
    unknown: list[str] = []
    fields = _known_fields(list(schema), "", unknown)
    return pa.schema(fields), unknown


def _known_fields(fields: list[pa.Field], path: str, unknown: list[str]) -> list[pa.Field]:
    result = []
    for field in fields:
        kind = _known_type(field.type, path + field.name, unknown)
        if kind is None:
            unknown.append(path + field.name)
        else:
            result.append(pa.field(field.name, kind, field.nullable))
    return result


def _known_type(kind: pa.DataType, path: str, unknown: list[str]) -> pa.DataType | None:
    if types.is_null(kind):
        return None
    if types.is_struct(kind):
        below: list[str] = []
        fields = _known_fields(list(kind.fields), f"{path}.", below)
        if not fields:
            return None
        unknown += below
        return pa.struct(fields)
    if types.is_list(kind):
        item = kind.value_field
        inner = _known_type(item.type, f"{path}[]", unknown)
        return None if inner is None else pa.list_(pa.field(item.name, inner, item.nullable))
    return kind
