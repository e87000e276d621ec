"""Combines the types that several JSON Schemas give to one value; where they clash, the type is open."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial, reduce

import pyarrow as pa
import pyarrow.types as types

OPEN = pa.null()
"""The type of values that may be anything."""


def type_of_all(kinds: Iterable[pa.DataType]) -> pa.DataType:
    """Returns the type of values that fit every schema (`allOf`): where one is open, another may give the type."""
    return reduce(partial(_joined, open_wins=False), kinds, OPEN)


def type_of_any(kinds: Iterable[pa.DataType]) -> pa.DataType:
    """Returns the type of values that fit one of the schemas (`anyOf`): where one is open, the result is open. A
    field that only some schemas have gets its type from these."""
    first, *others = [*kinds] or [OPEN]
    return reduce(partial(_joined, open_wins=True), others, first)


def _joined(first: pa.DataType, second: pa.DataType, *, open_wins: bool) -> pa.DataType:
    if types.is_null(first) or types.is_null(second):
        return OPEN if open_wins else second if types.is_null(first) else first
    if first.equals(second):
        return first
    if {first, second} == {pa.int64(), pa.float64()}:
        return pa.float64()
    join = partial(_joined, open_wins=open_wins)
    if types.is_struct(first) and types.is_struct(second):
        fields = {field.name: field.type for field in first.fields}
        for field in second.fields:
            fields[field.name] = join(fields[field.name], field.type) if field.name in fields else field.type
        return pa.struct(list(fields.items()))
    if types.is_list(first) and types.is_list(second):
        return pa.list_(join(first.value_type, second.value_type))
    if types.is_map(first) and types.is_map(second):
        return pa.map_(pa.string(), join(first.item_type, second.item_type))
    return OPEN
