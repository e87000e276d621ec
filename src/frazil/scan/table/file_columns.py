"""Finds the columns of a table in a data file by their ids, and brings them into the types that the table has now.

A file may be older than the table: columns have other names or narrower types in it, or are missing. Most columns are
taken as they are. Those whose inner structure has changed are converted by PyIceberg.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as types
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from frazil.lake.checksums import patch_list_nulls  # noqa: F401 - for what it puts right in PyIceberg
from frazil.lake.pyiceberg_internals import project_batch, schema_of_file
from frazil.lake.schema.arrow import FIELD_ID, arrow_type

_WIDER = {(pa.int32(), pa.int64()), (pa.float32(), pa.float64())}


@dataclass(frozen=True)
class _Source:
    """Says where a column of the table comes from in a file."""

    field: NestedField
    name: str | None
    """The name in the file. It is None if the file does not have the column."""
    plain: bool
    """Whether the column can be taken as it is, or by a cast."""


class FileColumns:
    """Reads the columns of files that have one schema as a table has them now. Any thread may use it."""

    def __init__(self, file_schema: pa.Schema, metadata: TableMetadata, table: Schema) -> None:
        """`table` is the schema that the table is going to have."""
        self._iceberg = schema_of_file(file_schema, metadata)
        names = {field.field_id: field.name for field in self._iceberg.fields}
        columns = {field.name: field for field in file_schema}
        with_ids = all(FIELD_ID in (field.metadata or {}) for field in file_schema)
        self._sources: dict[str, _Source] = {}
        for field in table.fields:
            name = names.get(field.field_id)
            plain = name is None or (with_ids and _is_plain(columns[name].type, field.field_type))
            self._sources[field.name] = _Source(field, name, plain)

    def names(self, columns: Sequence[str]) -> list[str]:
        """Returns the names that the file has for those of the columns that it has."""
        found = (self._sources[column].name for column in columns)
        return [name for name in found if name is not None]

    def lacks(self, column: str) -> bool:
        return self._sources[column].name is None

    def name(self, column: str) -> str | None:
        return self._sources[column].name

    def convert(
        self, rows: pa.RecordBatch, columns: Sequence[str], target: pa.Schema, constants: Mapping[int, Any]
    ) -> pa.RecordBatch:
        """Returns rows of the file with these columns of the table. `constants` are values of columns that only the
        partition of the file tells, by field id."""
        if not columns:
            return rows
        odd = [column for column in columns if not self._sources[column].plain]
        converted = self._by_pyiceberg(rows, odd) if odd else None
        found = []
        for column, field in zip(columns, target, strict=True):
            source = self._sources[column]
            if converted is not None and not source.plain:
                values = converted.column(column)
            elif source.name is not None:
                values = rows.column(source.name)
            else:
                values = _constant(source.field, field.type, len(rows), constants)
            found.append(_as_type(values, field.type))
        return pa.RecordBatch.from_arrays(found, schema=target)

    def _by_pyiceberg(self, rows: pa.RecordBatch, columns: Sequence[str]) -> pa.RecordBatch:
        fields = [self._sources[column].field for column in columns]
        there = Schema(*(self._iceberg.find_field(field.field_id) for field in fields))
        return project_batch(rows.select(self.names(columns)), Schema(*fields), there)


def _as_type(values: pa.Array, kind: pa.DataType) -> pa.Array:
    if isinstance(kind, pa.BaseExtensionType) and not isinstance(values.type, pa.BaseExtensionType):
        return kind.wrap_array(values.cast(kind.storage_type))
    return values if values.type == kind else values.cast(kind)


def _constant(field: NestedField, kind: pa.DataType, count: int, constants: Mapping[int, Any]) -> pa.Array:
    value = constants.get(field.field_id, field.initial_default)
    if value is None:
        return pa.nulls(count, kind)
    storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
    return pa.repeat(pa.scalar(value, storage), count)


def _is_plain(found: pa.DataType, wanted: IcebergType) -> bool:
    """Returns whether values of this type of a file need a cast at most."""
    match wanted:
        case StructType():
            return (
                types.is_struct(found)
                and found.num_fields == len(wanted.fields)
                and all(
                    _has_id(found.field(at), field.field_id) and _is_same(found.field(at).type, field.field_type)
                    for at, field in enumerate(wanted.fields)
                )
            )
        case ListType() | MapType():
            return _is_same(found, wanted)
    target = arrow_type(wanted)
    if isinstance(target, pa.BaseExtensionType):
        target = target.storage_type
    if isinstance(found, pa.BaseExtensionType):
        found = found.storage_type
    wider = types.is_decimal(found) and types.is_decimal(target) and found.scale == target.scale
    return bool(found == target or (found, target) in _WIDER or (wider and found.precision <= target.precision))


def _is_same(found: pa.DataType, wanted: IcebergType) -> bool:
    """Returns whether a type of a file is the same, with the same names and ids inside of it."""
    match wanted:
        case ListType():
            return bool(
                types.is_list(found)
                and _has_id(found.value_field, wanted.element_id)
                and _is_same(found.value_type, wanted.element_type)
            )
        case MapType():
            return bool(
                types.is_map(found)
                and _has_id(found.key_field, wanted.key_id)
                and _has_id(found.item_field, wanted.value_id)
                and _is_same(found.key_type, wanted.key_type)
                and _is_same(found.item_type, wanted.value_type)
            )
        case StructType():
            names = [field.name for field in wanted.fields]
            return _is_plain(found, wanted) and [found.field(at).name for at in range(found.num_fields)] == names
    return bool(found == arrow_type(wanted))


def _has_id(field: pa.Field, field_id: int) -> bool:
    return bool((field.metadata or {}).get(FIELD_ID) == str(field_id).encode())
