"""Removes fields from nested types, for example those that no table can have."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.types as types

from frazil.log.schema.paths import below, folded


def pruned(kind: pa.DataType, keep: Callable[[str, str], bool]) -> pa.DataType:
    """Returns the type without the fields for which `keep(path, name)` is false. `keep` is asked in the order of the
    fields."""
    return _pruned(kind, keep, "") or pa.null()


def _pruned(kind: pa.DataType, keep: Callable[[str, str], bool], above: str) -> pa.DataType | None:
    """Returns None if a list would lose its items, or a map its keys or values."""
    if types.is_struct(kind):
        kept: list[pa.Field] = []
        for field in kind.fields:
            path = below(above, field.name)
            inner = _pruned(field.type, keep, path) if keep(path, field.name) else None
            kept += [field.with_type(inner)] if inner is not None else []
        return pa.struct(kept)
    if types.is_list(kind):
        item = _part(kind.value_field, keep, below(above, "element"), "element")
        return None if item is None else pa.list_(item)
    if types.is_map(kind):
        key = _part(kind.key_field, keep, below(above, "key"), "key")
        item = _part(kind.item_field, keep, below(above, "value"), "value")
        return None if key is None or item is None else pa.map_(key, item)
    return kind


def _part(field: pa.Field, keep: Callable[[str, str], bool], path: str, name: str) -> pa.Field | None:
    inner = _pruned(field.type, keep, path) if keep(path, name) else None
    return None if inner is None else field.with_type(inner)


def without_repeated_paths(kind: pa.DataType) -> pa.DataType:
    """Returns the type without fields that have the path of a field before them. Paths are compared without case."""
    taken: set[str] = set()

    def is_free(path: str, _: str) -> bool:
        free = folded(path) not in taken
        taken.add(folded(path))
        return free

    return pruned(kind, is_free)
