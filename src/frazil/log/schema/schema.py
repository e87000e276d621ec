"""The schema of a topic: how it may evolve, and how batches are adapted to it.

Allowed are new nullable columns, a type for a column that had only nulls, and widening (int→long, float→double);
also inside structs, lists and maps.
A column may be absent from a batch when it is nullable. Anything else is `SchemaMismatch`. A value that its
column's type cannot hold is `ArrowConversion`.
"""

from __future__ import annotations

import base64
from collections import Counter
from functools import lru_cache
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as types

from frazil.errors import ArrowConversion, SchemaMismatch
from frazil.log.schema.columns import TOO_DEEP, is_too_deep

_INTEGERS: tuple[pa.DataType, ...] = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
_FLOATS: tuple[pa.DataType, ...] = (pa.float16(), pa.float32(), pa.float64())
_SYNONYMS: dict[pa.DataType, pa.DataType] = {
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}
"""Types that differ in memory layout only. A topic stores one of them."""


class SchemaVersion(NamedTuple):
    """A topic's schema at one point of its history."""

    version: int
    schema: pa.Schema


def plain(schema: pa.Schema) -> pa.Schema:
    """Return the schema as a topic stores it: without dictionaries and metadata, and with one layout per meaning."""
    if not len(schema):
        raise SchemaMismatch("Records without columns cannot be stored.")
    if is_too_deep(schema):
        raise SchemaMismatch(f"Such records cannot be stored: {TOO_DEEP}.")
    if repeated := sorted(name for name, count in Counter(schema.names).items() if count > 1):
        raise SchemaMismatch(f"Columns of the same name: {', '.join(repeated)}. Each column needs its own name.")
    result = pa.schema([pa.field(field.name, plain_type(field.type), field.nullable) for field in schema])
    try:
        pq.write_table(result.empty_table(), pa.BufferOutputStream())
    except (pa.ArrowException, OSError) as error:
        raise SchemaMismatch(f"Parquet, which segments are stored as, cannot hold such records: {error}.") from error
    return result


def _plain_field(field: pa.Field) -> pa.Field:
    """Make a nested field nullable, because only columns are checked for nulls before they are stored."""
    return pa.field(field.name, plain_type(field.type))


def plain_type(kind: pa.DataType) -> pa.DataType:
    if isinstance(kind, pa.BaseExtensionType):
        return plain_type(kind.storage_type)
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return plain_type(kind.value_type)
    if types.is_struct(kind):
        return pa.struct([_plain_field(kind.field(i)) for i in range(kind.num_fields)])
    if types.is_map(kind):
        return pa.map_(plain_type(kind.key_type), _plain_field(kind.item_field))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_list_view(kind) or types.is_large_list_view(kind):
        return pa.list_(_plain_field(kind.value_field))
    if types.is_timestamp(kind) and kind.unit == "s":
        # Parquet has no seconds; values that do not fit are refused when they come, not when they are sealed.
        return pa.timestamp("ms", kind.tz)
    return _SYNONYMS.get(kind, kind)


def evolve(current: pa.Schema, wanted: pa.Schema, topic: str) -> pa.Schema:
    """Return a schema that holds records of both; `current` itself when nothing has to change."""
    problems: list[str] = []
    merged = _merge_fields(list(current), list(wanted), "", problems)
    if problems:
        raise SchemaMismatch(
            f"Records do not fit topic {topic!r}: {'; '.join(problems)}. Allowed changes: new nullable columns, "
            f"int→long, float→double."
        )
    result = pa.schema(merged)
    return current if result.equals(current) else result


def _merge_fields(current: list[pa.Field], wanted: list[pa.Field], path: str, problems: list[str]) -> list[pa.Field]:
    given = {field.name: field for field in wanted}
    merged: list[pa.Field] = []
    for old in current:
        new = given.pop(old.name, None)
        name = path + old.name
        if new is None:
            if not old.nullable:
                problems.append(f"column {name!r} is required but missing")
            merged.append(old)
        else:
            if new.nullable and not old.nullable:
                problems.append(f"column {name!r} is required but may be null in the records")
            merged.append(pa.field(old.name, _merge_types(old.type, new.type, name, problems), old.nullable))
    for new in given.values():
        if not new.nullable:
            problems.append(f"new column {path + new.name!r} is not nullable")
        merged.append(new)
    return merged


def _merge_types(old: pa.DataType, new: pa.DataType, name: str, problems: list[str]) -> pa.DataType:
    if old.equals(new) or types.is_null(new):
        return old
    if types.is_null(old):
        return new
    for family in (_INTEGERS, _FLOATS):
        if old in family and new in family:
            return family[max(family.index(old), family.index(new))]
    if types.is_struct(old) and types.is_struct(new):
        return pa.struct(_merge_fields(list(old.fields), list(new.fields), f"{name}.", problems))
    if types.is_list(old) and types.is_list(new):
        return pa.list_(_merge_item(old.value_field, new.value_field, f"{name}[]", problems))
    if types.is_map(old) and types.is_map(new) and old.key_type.equals(new.key_type):
        return pa.map_(old.key_type, _merge_item(old.item_field, new.item_field, f"{name}[]", problems))
    problems.append(f"column {name!r} is {old}, not {new}")
    return old


def _merge_item(old: pa.Field, new: pa.Field, name: str, problems: list[str]) -> pa.Field:
    if new.nullable and not old.nullable:
        problems.append(f"the items of {name!r} must not be null but may be null in the records")
    return pa.field(old.name, _merge_types(old.type, new.type, name, problems), old.nullable)


@lru_cache(maxsize=64)
def with_dictionaries(schema: pa.Schema, found: pa.Schema) -> pa.Schema:
    """Return the schema, with dictionary types for the columns that are dictionary-encoded in `found`."""
    kinds = {field.name: field.type for field in found}
    return pa.schema(
        [
            field.with_type(kinds[field.name])
            if field.name in kinds and plain_type(kinds[field.name]).equals(field.type)
            else field
            for field in schema
        ]
    )


def has_dictionary(kind: pa.DataType) -> bool:
    """Tell whether a type is a dictionary or contains one."""
    if types.is_map(kind):
        return has_dictionary(kind.key_type) or has_dictionary(kind.item_type)
    return types.is_dictionary(kind) or any(has_dictionary(kind.field(i).type) for i in range(kind.num_fields))


def without_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Decode the dictionaries of a batch; return the batch itself where there are none."""
    found = [has_dictionary(field.type) for field in batch.schema]
    if not any(found):
        return batch
    fields = [
        field.with_type(plain_type(field.type)) if encoded else field
        for field, encoded in zip(batch.schema, found, strict=True)
    ]
    columns = [column.cast(field.type) for column, field in zip(batch.columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the batch with exactly this schema: columns in its order, missing ones null, narrow ones widened."""
    if batch.schema.equals(schema):
        return batch
    present = set(batch.schema.names)
    columns = [
        batch.column(field.name).cast(field.type) if field.name in present else pa.nulls(len(batch), field.type)
        for field in schema
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


class SchemaAdapter:
    """Adapts batches of one schema to the schema of a topic. What depends on the schemas alone is computed once."""

    def __init__(self, given: pa.Schema, version: SchemaVersion) -> None:
        self.given = given
        self.version = version
        self._required = [i for i, field in enumerate(version.schema) if not field.nullable]
        self._exact = given.equals(version.schema)
        self.trivial = self._exact and not self._required
        """Batches can be stored as they are."""

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        if not self._exact:
            try:
                batch = conform(batch, self.version.schema)
            except pa.ArrowException as error:
                raise ArrowConversion(f"Records cannot be made to fit their topic: {error}.") from error
        for i in self._required:
            if nulls := batch.column(i).null_count:
                name = self.version.schema.field(i).name
                raise SchemaMismatch(f"Column {name!r} is required but has {nulls} nulls.")
        return batch


def to_text(schema: pa.Schema) -> str:
    return base64.b64encode(schema.serialize()).decode()


def from_text(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text)))
