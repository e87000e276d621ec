"""Rows of several schemas in one table: each column in the widest of the types that it comes with."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from frazil.formats.paths import distinct


def widest(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """All columns; of types, and of names, that do not go together, the first."""
    both = compatible_schemas(schemas)[0]
    return both if len(schemas) < 2 else without_repeated_names(both)


def without_repeated_names(schema: pa.Schema) -> pa.Schema:
    """Without what has the name of something before it, as tables name things."""
    return pa.schema(distinct(pa.struct(schema)).fields)


def compatible_schemas(schemas: Sequence[pa.Schema]) -> list[pa.Schema]:
    """The same columns in as few schemas as can be: one, unless some have types that do not go together."""
    if len(schemas) < 2:
        return list(schemas)
    layers: list[dict[str, pa.Field]] = [{}]
    named = [{column.name: column for column in schema} for schema in schemas]
    for name in dict.fromkeys(name for columns in named for name in columns):
        for depth, column in enumerate(_merge_types([columns[name] for columns in named if name in columns])):
            if depth == len(layers):
                layers.append({})
            layers[depth][name] = column
    return [pa.schema(list(layer.values())) for layer in layers]


def _merge_types(columns: Sequence[pa.Field]) -> list[pa.Field]:
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
