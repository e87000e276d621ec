"""Makes the schema changes that a person accepts with `--accept-schema`.

Columns that do not fit the topic are renamed, and new columns take their names. Additive changes need no consent:
they are made by `evolution`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import count

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.types import NestedField

from frazil.errors import SchemaEvolution
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.offsets import name_of, topic_of
from frazil.lake.evolution import (
    Evolution,
    apply_evolution,
    name_problems,
    new_schema,
    plan_merge,
    wanted_columns,
)
from frazil.lake.schema.column_merge import ColumnMerge, Remedy
from frazil.lake.schema.replaced_columns import PUT_ASIDE
from frazil.log.schema.paths import folded


def accept_schema(lake: Lake, table: Table, *schemas: pa.Schema) -> Table:
    """Changes the table so that it takes rows of these schemas, also where the change is not additive.

    A column that does not fit is renamed `NAME__1` (or the next free number) and becomes optional. Rows that are in
    the table keep their values in it, and rows of its old type that still arrive are written to it. A new column of
    the right type takes its name.
    """
    for schema in schemas:
        table = apply_evolution(lake, table, partial(plan_acceptance, schema))
    return table


def plan_acceptance(topic_schema: pa.Schema, table: Table) -> Evolution:
    metadata = table.metadata
    _, problems = plan_merge(metadata, (topic_schema,))
    hopeless = [each.text for each in problems if each.remedy is Remedy.NONE]
    replaced = {each.column for each in problems if each.remedy is Remedy.REPLACE}
    hopeless += [
        f"the table is partitioned by column {column!r}, which cannot be put aside"
        for column in sorted(replaced & _partition_columns(metadata))
    ]
    if hopeless:
        raise SchemaEvolution(
            f"Table {name_of(table)} cannot be made to fit: {'; '.join(hopeless)}. Name another table in "
            f"`topics.{topic_of(table)}.table.name`, or drop this one and recreate it."
        )
    relaxed = replaced | {each.column for each in problems if each.remedy is Remedy.RELAX}
    before: list[NestedField] = []
    changes: list[str] = []
    renamed: dict[str, str] = {}
    for column in metadata.schema().fields:
        update: dict[str, object] = {}
        if column.name in relaxed and column.required:
            update["required"] = False
            changes.append(f"column {column.name!r} may be null")
        if column.name in replaced:
            update["name"] = _free_name(column.name, metadata.schema())
            renamed[f"{PUT_ASIDE}{column.field_id}"] = column.name
            changes.append(f"column {column.name!r} is renamed to {update['name']!r}")
        before.append(column.model_copy(update=update))
    merge = ColumnMerge.after(metadata.last_column_id)
    fields: Sequence[NestedField] = before
    wanted, _ = wanted_columns(metadata, (topic_schema,))
    for each in wanted:
        fields = merge.columns(fields, each)
    left = [each for each in merge.problems if each.remedy is not Remedy.RELAX] + name_problems(metadata, fields)
    if left:
        raise SchemaEvolution(
            f"Table {name_of(table)} cannot be made to fit: {'; '.join(each.text for each in left)}."
        )
    schema = new_schema(metadata, fields)
    return Evolution(schema, [*changes, *merge.changes], _sort_order(metadata, replaced, schema), renamed)


def _partition_columns(metadata: TableMetadata) -> set[str]:
    """Returns the top-level columns that any partition spec of the table uses, also those of older files."""
    schema = metadata.schema()
    names = {schema.find_column_name(field.source_id) for spec in metadata.partition_specs for field in spec.fields}
    return {name.partition(".")[0] for name in names if name}


def _sort_order(metadata: TableMetadata, replaced: set[str], schema: Schema) -> SortOrder | None:
    """Returns the table's sort order with replaced columns exchanged for their successors, or None if none is in it.

    A successor that the transform of the sort field cannot be applied to is left out.
    """
    order = metadata.sort_order_by_id(metadata.default_sort_order_id)
    if order is None:
        return None
    fields: list[SortField] = []
    for each in order.fields:
        name = metadata.schema().find_column_name(each.source_id) or ""
        if name.partition(".")[0] not in replaced:
            fields.append(each)
        elif name in schema.column_names:
            successor = schema.find_field(name)
            if each.transform.can_transform(successor.field_type):
                fields.append(SortField(successor.field_id, each.transform, each.direction, each.null_order))
    if fields == list(order.fields):
        return None
    number = max(known.order_id for known in metadata.sort_orders) + 1
    return SortOrder(*fields, order_id=number) if fields else SortOrder(order_id=0)


def _free_name(name: str, schema: Schema) -> str:
    taken = {folded(column.name) for column in schema.fields}
    return next(free for n in count(1) if folded(free := f"{name}__{n}") not in taken)
