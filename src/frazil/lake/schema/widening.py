"""Rows of several schemas in one table: each column in the widest of the types that it comes with."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from frazil.formats.type_pruning import without_repeated_paths


def widest(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """All columns; of types, and of names, that do not go together, the first."""
    both = layered(schemas)[0]
    return both if len(schemas) < 2 else unambiguous(both)


def unambiguous(schema: pa.Schema) -> pa.Schema:
    """Without what has the name of something before it, as tables name things."""
    return pa.schema(without_repeated_paths(pa.struct(schema)).fields)


def layered(schemas: Sequence[pa.Schema]) -> list[pa.Schema]:
    """The same columns in as few schemas as can be: one, unless some have types that do not go together."""
    if len(schemas) < 2:
        return list(schemas)
    layers: list[dict[str, pa.Field]] = [{}]
    named = [{column.name: column for column in schema} for schema in schemas]
    for name in dict.fromkeys(name for columns in named for name in columns):
        for depth, column in enumerate(_together([columns[name] for columns in named if name in columns])):
            if depth == len(layers):
                layers.append({})
            layers[depth][name] = column
    return [pa.schema(list(layer.values())) for layer in layers]


def _together(columns: Sequence[pa.Field]) -> list[pa.Field]:
    """One column with the widest of these types; where there is none, each of them."""
    found: list[pa.Field] = []
    for column in columns:
        for at, other in enumerate(found):
            try:
                both = pa.unify_schemas([pa.schema([other]), pa.schema([column])], promote_options="permissive")
            except (pa.ArrowTypeError, pa.ArrowInvalid):
                continue
            found[at] = both.field(0)
            break
        else:
            found.append(column)
    return found
