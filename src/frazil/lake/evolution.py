"""A table follows its topic: additive changes by themselves, others when a person has said so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Literal

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSortOrderUpdate,
    AssertCurrentSchemaId,
    AssertDefaultSortOrderId,
    AssertLastAssignedFieldId,
    AssertTableUUID,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.types import NestedField

from frazil.errors import CasConflict, SchemaEvolution
from frazil.failpoints import failpoint
from frazil.lake.catalog import Lake, calling
from frazil.lake.merging import Merge, Problem, Remedy
from frazil.lake.offsets import TOPIC, named
from frazil.lake.schema import origin_fields, topic_fields

ON_MISMATCH = "frazil.on-mismatch"
STOP = "stop"

_TRIES = 10


@dataclass(frozen=True)
class Evolution:
    """What a table's schema becomes."""

    schema: Schema
    changes: Sequence[str]
    """In words; none when the table is fine as it is."""
    order: SortOrder | None = None
    """The sort order that goes with it, where the one there is would sort by a column put aside."""


def plan_evolution(table: Table, topic_schema: pa.Schema) -> Evolution:
    """What the table needs for rows of this topic. `SchemaEvolution` lists every problem when it cannot follow."""
    evolution, problems = _plan(table.metadata, _wanted(table.metadata, topic_schema))
    if problems:
        topic = table.metadata.properties.get(TOPIC, "TOPIC")
        raise SchemaEvolution(
            f"Table {named(table)} cannot follow topic {topic!r}: {'; '.join(each.text for each in problems)}. "
            f"`frazil topics resume {topic} --accept-schema` puts such columns aside and goes on with ones that fit; "
            f"`--dead-letter` keeps the table and sends rows that do not fit to the dead-letter table."
        )
    return evolution


def follow_topic(lake: Lake, table: Table, topic_schema: pa.Schema) -> Table:
    """The table with every column that rows of this topic need; the same table when it has them.

    Where a person has chosen to send rows that do not fit to the dead-letter table, what can be followed is.
    """
    return _apply(lake, table, lambda current: plan_following(current, topic_schema))


def follow_query(lake: Lake, table: Table, result: Schema) -> Table:
    """A derived table with every column that its query gives."""
    return _apply(lake, table, lambda current: _plan_result(current, result))


def _plan_result(table: Table, result: Schema) -> Evolution:
    evolution, problems = _plan(table.metadata, result.fields)
    if problems:
        raise SchemaEvolution(
            f"Table {named(table)} cannot follow its query: {'; '.join(each.text for each in problems)}. Give the "
            f"derived table another name, or make the query give what the table has."
        )
    return evolution


def accept_schema(lake: Lake, table: Table, topic_schema: pa.Schema) -> Table:
    """As `follow_topic`, for a person who agrees to what is not additive.

    A column that does not fit is renamed `NAME__1` (or the next free number) and may be null from now on: rows that
    are there keep their values in it. A column that fits takes its name.
    """
    return _apply(lake, table, lambda current: plan_acceptance(current, topic_schema))


def set_on_mismatch(lake: Lake, table: Table, choice: Literal["stop", "dead-letter"]) -> Table:
    """Remember in the table what is done with rows that do not fit it."""
    with calling(f"Setting {ON_MISMATCH} of table {named(table)}"):
        same = (AssertTableUUID(uuid=table.metadata.table_uuid),)
        lake.catalog.commit_table(table, same, (SetPropertiesUpdate(updates={ON_MISMATCH: choice}),))
    return lake.load(table.name())


def plan_following(table: Table, topic_schema: pa.Schema) -> Evolution:
    if table.metadata.properties.get(ON_MISMATCH, STOP) == STOP:
        return plan_evolution(table, topic_schema)
    wanted = _wanted(table.metadata, topic_schema)
    _, problems = _plan(table.metadata, wanted)
    impossible = {each.column for each in problems if each.remedy is Remedy.NONE}
    evolution, _ = _plan(table.metadata, [column for column in wanted if column.name not in impossible])
    return evolution


def plan_acceptance(table: Table, topic_schema: pa.Schema) -> Evolution:
    metadata = table.metadata
    wanted = _wanted(metadata, topic_schema)
    _, problems = _plan(metadata, wanted)
    hopeless = [each.text for each in problems if each.remedy is Remedy.NONE]
    replaced = {each.column for each in problems if each.remedy is Remedy.REPLACE}
    hopeless += [
        f"the table is partitioned by column {column!r}, which cannot be put aside"
        for column in sorted(replaced & _partition_columns(metadata))
    ]
    if hopeless:
        raise SchemaEvolution(
            f"Table {named(table)} cannot be made to fit: {'; '.join(hopeless)}. Name another table in "
            f"`topics.TOPIC.table.name`, or drop this one and recreate it."
        )
    relaxed = replaced | {each.column for each in problems if each.remedy is Remedy.RELAX}
    before: list[NestedField] = []
    changes: list[str] = []
    for column in metadata.schema().fields:
        update: dict[str, object] = {}
        if column.name in relaxed and column.required:
            update["required"] = False
            changes.append(f"column {column.name!r} may be null")
        if column.name in replaced:
            update["name"] = _free_name(column.name, metadata.schema())
            changes.append(f"column {column.name!r} is renamed to {update['name']!r}")
        before.append(column.model_copy(update=update))
    merge = Merge.after(metadata.last_column_id)
    fields = merge.columns(before, wanted)
    left = [each for each in merge.problems if each.remedy is not Remedy.RELAX] + _name_problems(metadata, fields)
    if left:
        raise SchemaEvolution(f"Table {named(table)} cannot be made to fit: {'; '.join(each.text for each in left)}.")
    schema = _schema(metadata, fields)
    return Evolution(schema, [*changes, *merge.changes], _sort_order(metadata, replaced, schema))


def schema_updates(metadata: TableMetadata, evolution: Evolution) -> tuple[list[TableRequirement], list[TableUpdate]]:
    """The parts of a commit that make a table's schema what was planned, and only if it is still what it was."""
    requirements: list[TableRequirement] = [
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
        AssertLastAssignedFieldId(last_assigned_field_id=metadata.last_column_id),
    ]
    updates: list[TableUpdate] = []
    if evolution.changes:
        updates += [AddSchemaUpdate(schema_=evolution.schema), SetCurrentSchemaUpdate(schema_id=-1)]
    if evolution.order is not None:
        requirements.append(AssertDefaultSortOrderId(default_sort_order_id=metadata.default_sort_order_id))
        if metadata.sort_order_by_id(evolution.order.order_id) is None:
            updates += [AddSortOrderUpdate(sort_order=evolution.order), SetDefaultSortOrderUpdate(sort_order_id=-1)]
        else:
            updates.append(SetDefaultSortOrderUpdate(sort_order_id=evolution.order.order_id))
    return requirements, updates


def _apply(lake: Lake, table: Table, plan: Callable[[Table], Evolution]) -> Table:
    for _ in range(_TRIES):
        evolution = plan(table)
        if not evolution.changes:
            return table
        requirements, updates = schema_updates(table.metadata, evolution)
        try:
            with calling(f"Changing the schema of table {named(table)}"):
                lake.catalog.commit_table(table, tuple(requirements), tuple(updates))
            failpoint("evolve.committed")
        except CasConflict:
            # What is there now may have all that is needed, or need something else.
            pass
        table = lake.load(table.name())
    if not plan(table).changes:
        return table
    raise CasConflict(f"The schema of table {named(table)} is being changed by others all the time; try later.")


def _plan(metadata: TableMetadata, wanted: Sequence[NestedField]) -> tuple[Evolution, list[Problem]]:
    merge = Merge.after(metadata.last_column_id)
    fields = merge.columns(metadata.schema().fields, wanted)
    problems = merge.problems + _name_problems(metadata, fields)
    return Evolution(_schema(metadata, fields), merge.changes), problems


def _wanted(metadata: TableMetadata, topic_schema: pa.Schema) -> list[NestedField]:
    fields, problems = topic_fields(topic_schema)
    if problems:
        raise SchemaEvolution(f"No table can hold this topic: {'; '.join(problems)}.")
    present = {column.name: column for column in metadata.schema().fields}
    for column in origin_fields(required=False):
        # Optional where the table's older rows came from elsewhere; where it is required, all rows have it.
        strict = column.name in present and present[column.name].required
        fields.append(column.model_copy(update={"required": strict}))
    return fields


def _name_problems(metadata: TableMetadata, fields: Sequence[NestedField]) -> list[Problem]:
    """Names that Iceberg's Java library, and with it Spark, would refuse the whole table for."""
    there = {column.field_id for column in metadata.schema().fields}
    taken = {field.name.lower() for spec in metadata.partition_specs for field in spec.fields}
    taken |= {column.name.lower() for column in fields if column.field_id in there}
    return [
        Problem(column.name, f"the name of column {column.name!r} is taken in the table by another", Remedy.NONE)
        for column in fields
        if column.field_id not in there and column.name.lower() in taken
    ]


def _schema(metadata: TableMetadata, fields: Sequence[NestedField]) -> Schema:
    strict = {column.field_id for column in fields if column.required}
    current = metadata.schema()
    identifiers = [field_id for field_id in current.identifier_field_ids if field_id in strict]
    number = max(schema.schema_id for schema in metadata.schemas) + 1
    return Schema(*fields, schema_id=number, identifier_field_ids=identifiers)


def _partition_columns(metadata: TableMetadata) -> set[str]:
    """Columns that partitions are made of, also those of old files."""
    schema = metadata.schema()
    names = {schema.find_column_name(field.source_id) for spec in metadata.partition_specs for field in spec.fields}
    return {name.partition(".")[0] for name in names if name}


def _sort_order(metadata: TableMetadata, replaced: set[str], schema: Schema) -> SortOrder | None:
    """The table's order with the columns that took over the names of those put aside; None if it stays."""
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
    taken = {column.name.lower() for column in schema.fields}
    return next(free for n in count(1) if (free := f"{name}__{n}").lower() not in taken)
