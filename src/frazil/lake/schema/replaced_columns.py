"""Columns that were put aside: they keep their rows under another name, and take further ones of their type.

A person who accepts a new type of a column gives its name away, but records of the old type may still come: they were
written before, or by somebody who does not know yet. They belong where the others of their type are.
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
"""Table property; ends with the id of a column, and says the name that it had."""

ReplacedColumns = Mapping[str, tuple[str, ...]]
"""The columns that once had a name, the newest first."""


def replaced_columns(metadata: TableMetadata) -> dict[str, tuple[str, ...]]:
    present = {column.field_id: column.name for column in metadata.schema().fields}
    found: defaultdict[str, list[int]] = defaultdict(list)
    for key, name in metadata.properties.items():
        number = key.removeprefix(PUT_ASIDE)
        if number != key and number.isdecimal() and int(number) in present:
            found[name].append(int(number))
    # Ids count up, so the higher one is that of the newer column.
    return {name: tuple(present[each] for each in sorted(ids, reverse=True)) for name, ids in found.items()}


def use_table_names(rows: pa.Schema, table: Schema, replaced: ReplacedColumns) -> pa.Schema:
    """The schema of rows with the names under which the table has their columns."""
    if not replaced:
        return rows
    columns = {column.name: column for column in table.fields}
    return pa.schema([_with_table_name(field, columns, replaced) for field in rows], rows.metadata)


def _with_table_name(field: pa.Field, columns: Mapping[str, NestedField], replaced: ReplacedColumns) -> pa.Field:
    names = (field.name, *replaced.get(field.name, ()))
    fitting = next((name for name in names if name in columns and _fits(columns[name], field)), field.name)
    return field.with_name(fitting)


def _fits(column: NestedField, field: pa.Field) -> bool:
    """Whether the column has the type of the field, or can be widened to it."""
    wanted, problems = topic_fields(pa.schema([field.with_name(column.name).with_nullable(True)]))
    if problems or not wanted:
        return not problems
    merge = ColumnMerge.after(0)
    merge.columns([column.model_copy(update={"required": False})], wanted[:1])
    return not merge.problems
