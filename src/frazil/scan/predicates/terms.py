"""Finds what a predicate speaks of in a schema: columns, fields of structs, values of maps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyarrow.types import is_dictionary, is_large_string, is_map, is_string, is_string_view, is_struct

from frazil.errors import CallError
from frazil.log.topics.naming import hint
from frazil.scan.predicates.tree import And, Column, MapValue, Not, Or, Predicate, Term


def terms_of(predicate: Predicate) -> Iterator[Term]:
    match predicate:
        case Not(child):
            yield from terms_of(child)
        case And(children) | Or(children):
            for each in children:
                yield from terms_of(each)
        case _:
            yield predicate.term


def columns_of(predicate: Predicate | None, names: Sequence[str]) -> tuple[str, ...]:
    """Returns the columns that the predicate uses, of those with these names.

    For a field of a struct it is the struct. Raises `CallError` if there is no such column.
    """
    if predicate is None:
        return ()
    return tuple(dict.fromkeys(split_name(term_column(term), names)[0] for term in terms_of(predicate)))


def term_column(term: Term) -> str:
    return term.name if isinstance(term, Column) else term.column


def split_name(name: str, names: Sequence[str]) -> tuple[str, ...]:
    """Returns the column and the path of fields in it. A column whose own name has dots goes before a path."""
    if name in names:
        return (name,)
    parts = name.split(".")
    for count in range(len(parts) - 1, 0, -1):
        head = ".".join(parts[:count])
        if head in names:
            return (head, *parts[count:])
    raise CallError(f"There is no column {name!r}.{hint(name, names)}")


def path_of(term: Term, schema: pa.Schema) -> tuple[tuple[str, ...], pa.DataType]:
    """Returns where the column of a term is in rows of this schema, and the type of its values.

    For `MapValue` the path leads to the map, and the type is that of the map's values.
    """
    name = term_column(term)
    path = split_name(name, schema.names)
    kind = schema.field(path[0]).type
    for part in path[1:]:
        kind = value_type(kind)
        index = kind.get_field_index(part) if is_struct(kind) else -1
        if index < 0:
            raise CallError(f"There is no column {name!r}: {kind} has no field {part!r}.")
        kind = kind.field(index).type
    if isinstance(term, MapValue):
        if not is_map(kind) or not is_text(value_type(kind.key_type)):
            raise CallError(f"{name!r} is of type {kind}: it has no values under keys that are text.")
        kind = kind.item_type
    return path, kind


def value_type(kind: pa.DataType) -> pa.DataType:
    """Returns the type of the values, whether they are stored as a dictionary or not."""
    return kind.value_type if is_dictionary(kind) else kind


def is_text(kind: pa.DataType) -> bool:
    return bool(is_string(kind) or is_large_string(kind) or is_string_view(kind))
