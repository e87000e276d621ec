"""Infers the Arrow types of JSON values from many texts, each of which shows a part of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.types as types


class Conflict(Exception):
    """Raised when no single type holds the values of a column."""


def widen(known: pa.Schema, found: pa.Schema) -> pa.Schema:
    """Returns the schema that holds both. Strings that look like dates stay strings, because it is chance whether all
    of them do."""
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


def known_columns(schema: pa.Schema) -> tuple[pa.Schema, list[str]]:
    """Returns the columns whose type is known, and the names of those whose values were only null or empty."""
    unknown: list[str] = []
    fields = _known_fields(list(schema), "", unknown)
    return pa.schema(fields), unknown


def known_type(kind: pa.DataType) -> pa.DataType | None:
    """Returns the type without its unknown fields; None if nothing is known."""
    return _known_type(kind, "", [])


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
    if types.is_map(kind):
        inner = _known_type(kind.item_type, f"{path}{{}}", unknown)
        return None if inner is None else pa.map_(kind.key_type, kind.item_field.with_type(inner))
    return kind


def settle(given: Iterable[pa.Field], known: Iterable[pa.Field]) -> pa.DataType:
    """Returns the struct of columns whose types no record changes: the given columns, then the known ones beside
    them.

    Types become those that JSON is decoded to: plain and nullable at every level.
    """
    merged = {field.name: plain(field.type) for field in given}
    for field in known:
        kind = plain(field.type)
        merged[field.name] = _merged(merged[field.name], kind) if field.name in merged else kind
    return pa.struct([(name, kind) for name, kind in merged.items() if not types.is_null(kind)])


def _merged(given: pa.DataType, known: pa.DataType) -> pa.DataType:
    if types.is_struct(given) and types.is_struct(known):
        return settle(given.fields, known.fields)
    if types.is_list(given) and types.is_list(known):
        return pa.list_(_merged(given.value_type, known.value_type))
    if types.is_map(given) and types.is_map(known):
        return pa.map_(given.key_type, _merged(given.item_type, known.item_type))
    return given


def plain(kind: pa.DataType) -> pa.DataType:
    """Returns the type for the same values without large offsets, views, dictionaries, names of items and NOT
    NULL."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain(kind.storage_type)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return plain(kind.value_type)
    if types.is_struct(kind):
        return settle([], kind.fields)
    if types.is_map(kind):
        return pa.map_(plain(kind.key_type), plain(kind.item_type))
    if types.is_large_string(kind) or types.is_string_view(kind):
        return pa.string()
    if types.is_large_binary(kind) or types.is_binary_view(kind):
        return pa.binary()
    return pa.list_(plain(kind.value_type)) if types.is_nested(kind) and hasattr(kind, "value_field") else kind


def nested_types(kind: pa.DataType) -> Iterator[pa.DataType]:
    """Yields a type and all types inside it."""
    yield kind
    for index in range(kind.num_fields):
        yield from nested_types(kind.field(index).type)


def has_maps(kind: pa.DataType) -> bool:
    return any(types.is_map(part) for part in nested_types(kind))
