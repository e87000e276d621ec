"""Replaced columns: columns that were renamed because a column of another type took their name.

After a person has accepted a new type for a column, records of the old type may still arrive: they were written
before, or by a producer that does not know yet. They are written to the renamed column, which has their type.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import NestedField

from frazil.lake.schema.column_merge import ColumnMerge
from frazil.lake.schema.table_schema import topic_fields

PUT_ASIDE = "frazil.put-aside."
"""The table property `frazil.put-aside.FIELD_ID` has the former name of the column with that id."""

ReplacedColumns = Mapping[str, tuple[str, ...]]
"""These are, for each name, the columns that had it before they were replaced, the newest first."""


def replaced_columns(metadata: TableMetadata) -> dict[str, tuple[str, ...]]:
    present = {column.field_id: column.name for column in metadata.schema().fields}
    found: defaultdict[str, list[int]] = defaultdict(list)
    for key, name in metadata.properties.items():
        number = key.removeprefix(PUT_ASIDE)
        if number != key and number.isdecimal() and int(number) in present:
            found[name].append(int(number))
    # Field ids only grow, so the column with the higher id is newer.
    return {name: tuple(present[each] for each in sorted(ids, reverse=True)) for name, ids in found.items()}


def use_table_names(rows: pa.Schema, table: Schema, replaced: ReplacedColumns) -> pa.Schema:
    """Renames columns of a row schema to the table's columns that fit their types, replaced ones included."""
    if not replaced:
        return rows
    columns = {column.name: column for column in table.fields}
    return pa.schema([_with_table_name(field, columns, replaced) for field in rows], rows.metadata)


def _with_table_name(field: pa.Field, columns: Mapping[str, NestedField], replaced: ReplacedColumns) -> pa.Field:
    names = (field.name, *replaced.get(field.name, ()))
    fitting = next((name for name in names if name in columns and _fits(columns[name], field)), field.name)
    return field.with_name(fitting)


def _fits(column: NestedField, field: pa.Field) -> bool:
    """Returns whether the column has the type of the field, or can be widened to it."""
    wanted, problems = topic_fields(pa.schema([field.with_name(column.name).with_nullable(True)]))
    if problems or not wanted:
        return not problems
    merge = ColumnMerge.after(0)
    merge.columns([column.model_copy(update={"required": False})], wanted[:1])
    return not merge.problems
