"""Merges several row schemas into one: each column gets the widest of its types."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from frazil.formats.type_pruning import without_repeated_paths


def widest(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Merges schemas into one. Of incompatible types, and of names that a table would confuse, the first one wins."""
    both = compatible_schemas(schemas)[0]
    return both if len(schemas) < 2 else without_repeated_names(both)


def without_repeated_names(schema: pa.Schema) -> pa.Schema:
    """Removes columns and fields that have the name of an earlier one, as tables compare names."""
    return pa.schema(without_repeated_paths(pa.struct(schema)).fields)


def compatible_schemas(schemas: Sequence[pa.Schema]) -> list[pa.Schema]:
    """Merges schemas into as few as possible. There is more than one only if a column has incompatible types."""
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
    """Merges columns of one name into columns of the widest types. Incompatible types stay separate columns."""
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
