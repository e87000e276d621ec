"""A table follows its topic: additive changes by themselves, others when a person has said so."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import SortOrder
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
from pyiceberg.types import ListType, MapType, NestedField, StructType

from frazil.errors import CasConflict, SchemaEvolution
from frazil.failpoints import failpoint
from frazil.lake.catalog.lake import Lake, calling
from frazil.lake.commit.offsets import name_of, topic_of
from frazil.lake.commit.resume_command import resume_command
from frazil.lake.mapping.mapper import OnMismatch
from frazil.lake.schema.column_merge import ColumnMerge, ColumnProblem, Remedy
from frazil.lake.schema.replaced_columns import replaced_columns, use_table_names
from frazil.lake.schema.table_schema import dead_letter_schema, origin_fields, topic_fields
from frazil.lake.schema.widening import compatible_schemas, without_repeated_names
from frazil.log.schema.paths import below, folded

ON_MISMATCH = "frazil.on-mismatch"
STOP: Final = "stop"

_TRIES = 10


@dataclass(frozen=True)
class Evolution:
    """What a table's schema becomes."""

    schema: Schema
    changes: Sequence[str]
    """In words; none when the table is fine as it is."""
    order: SortOrder | None = None
    """The sort order that goes with it, where the one there is would sort by a column put aside."""
    properties: Mapping[str, str] = field(default_factory=dict)


def plan_evolution(table: Table, *schemas: pa.Schema) -> Evolution:
    """What the table needs for rows of these schemas. `SchemaEvolution` lists every problem when it cannot follow."""
    evolution, problems = plan_merge(table.metadata, schemas)
    if problems:
        topic = topic_of(table)
        raise SchemaEvolution(
            f"Table {name_of(table)} cannot follow topic {topic!r}: {'; '.join(each.text for each in problems)}. "
            f"`frazil topics resume {topic} --accept-schema` puts such columns aside and goes on with ones that fit; "
            f"`--dead-letter` keeps the table and sends rows that do not fit to the dead-letter table."
        )
    return evolution


def follow_topic(lake: Lake, table: Table, *schemas: pa.Schema) -> Table:
    """The table with every column that rows of these schemas need; the same table when it has them.

    Where a person has chosen to send rows that do not fit to the dead-letter table, what can be followed is.
    """
    return apply_evolution(lake, table, lambda current: plan_following(current, *schemas))


def follow_first(lake: Lake, table: Table, *schemas: pa.Schema) -> Table:
    """As `follow_topic`, but schemas that clash with ones before them wait. `SchemaEvolution` if none is followed.

    Where records have no types but those that they show, rows of the ones that wait will be judged by the table.
    """
    return apply_evolution(lake, table, lambda current: _plan_first(current, schemas))


def evolved_schema(metadata: TableMetadata, *schemas: pa.Schema) -> Schema:
    """What the table's schema would become for such rows, as far as it can follow them."""
    evolution, _ = _plan_possible(metadata, schemas)
    return evolution.schema


def must_change_for(metadata: TableMetadata, rows: pa.Schema) -> bool:
    """Whether the table has to change before it can take rows of this schema, or cannot take them at all."""
    plan = plan_merge if on_mismatch_of(metadata) == STOP else _plan_possible
    evolution, problems = plan(metadata, (rows,))
    return bool(evolution.changes or problems)


def follow_query(lake: Lake, table: Table, result: Schema) -> Table:
    """A derived table with every column that its query gives."""
    return apply_evolution(lake, table, lambda current: _plan_result(current, result))


def follow_dead_letters(lake: Lake, table: Table) -> Table:
    """A dead-letter table with every column that letters have."""
    return apply_evolution(lake, table, _plan_letters)


def _plan_letters(table: Table) -> Evolution:
    evolution, problems = _merge(table.metadata, [dead_letter_schema().fields])
    if problems:
        raise SchemaEvolution(
            f"Table {name_of(table)} cannot take dead letters any more: {'; '.join(each.text for each in problems)}. "
            f"{resume_command(topic_of(table), 'recreate', 'dead-letter', name_of(table))} puts it aside and makes "
            f"another."
        )
    return evolution


def _plan_result(table: Table, result: Schema) -> Evolution:
    evolution, problems = _merge(table.metadata, [result.fields])
    if problems:
        raise SchemaEvolution(
            f"Table {name_of(table)} cannot follow its query: {'; '.join(each.text for each in problems)}. Give the "
            f"derived table another name, or make the query give what the table has."
        )
    return evolution


def on_mismatch_of(metadata: TableMetadata) -> OnMismatch:
    return "dead-letter" if metadata.properties.get(ON_MISMATCH) == "dead-letter" else STOP


def set_on_mismatch(lake: Lake, table: Table, choice: OnMismatch) -> Table:
    """Remember in the table what is done with rows that do not fit it."""
    with calling(f"Setting {ON_MISMATCH} of table {name_of(table)}"):
        same = (AssertTableUUID(uuid=table.metadata.table_uuid),)
        lake.catalog.commit_table(table, same, (SetPropertiesUpdate(updates={ON_MISMATCH: choice}),))
    return lake.load(table.name())


def plan_following(table: Table, *schemas: pa.Schema) -> Evolution:
    if on_mismatch_of(table.metadata) == STOP:
        return plan_evolution(table, *schemas)
    evolution, _ = _plan_possible(table.metadata, schemas)
    return evolution


def _plan_first(table: Table, schemas: Sequence[pa.Schema]) -> Evolution:
    try:
        return plan_following(table, *schemas)
    except SchemaEvolution:
        together: list[pa.Schema] = []
        for schema in schemas:
            more = compatible_schemas([*together, schema])
            if not plan_merge(table.metadata, more)[1]:
                together = more
        if not together:
            raise
    return plan_following(table, *together)


def _plan_possible(metadata: TableMetadata, schemas: Sequence[pa.Schema]) -> tuple[Evolution, list[ColumnProblem]]:
    """As far as it goes: rows with values in other columns will not fit."""
    wanted, flaws = wanted_columns(metadata, schemas, without_repeated_names)
    _, problems = _merge(metadata, wanted)
    impossible = {each.column for each in (*flaws, *problems) if each.remedy is Remedy.NONE}
    possible = [[column for column in fields if column.name not in impossible] for fields in wanted]
    evolution, _ = _merge(metadata, possible)
    return evolution, []


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
    if evolution.properties:
        updates.append(SetPropertiesUpdate(updates=dict(evolution.properties)))
    if evolution.order is not None:
        requirements.append(AssertDefaultSortOrderId(default_sort_order_id=metadata.default_sort_order_id))
        if metadata.sort_order_by_id(evolution.order.order_id) is None:
            updates += [AddSortOrderUpdate(sort_order=evolution.order), SetDefaultSortOrderUpdate(sort_order_id=-1)]
        else:
            updates.append(SetDefaultSortOrderUpdate(sort_order_id=evolution.order.order_id))
    return requirements, updates


def apply_evolution(lake: Lake, table: Table, plan: Callable[[Table], Evolution]) -> Table:
    for _ in range(_TRIES):
        evolution = plan(table)
        if not evolution.changes:
            return table
        requirements, updates = schema_updates(table.metadata, evolution)
        try:
            with calling(f"Changing the schema of table {name_of(table)}"):
                lake.catalog.commit_table(table, tuple(requirements), tuple(updates))
            failpoint("evolve.committed")
        except CasConflict:
            # What is there now may have all that is needed, or need something else.
            pass
        table = lake.load(table.name())
    if not plan(table).changes:
        return table
    raise CasConflict(f"The schema of table {name_of(table)} is being changed by others all the time; try later.")


def plan_merge(metadata: TableMetadata, schemas: Sequence[pa.Schema]) -> tuple[Evolution, list[ColumnProblem]]:
    """What the table would become, and what keeps it from that."""
    wanted, flaws = wanted_columns(metadata, schemas)
    evolution, problems = _merge(metadata, wanted)
    return evolution, flaws + problems


def _merge(metadata: TableMetadata, wanted: Sequence[Sequence[NestedField]]) -> tuple[Evolution, list[ColumnProblem]]:
    merge = ColumnMerge.after(metadata.last_column_id)
    fields: Sequence[NestedField] = metadata.schema().fields
    for each in wanted:
        fields = merge.columns(fields, each)
    taken = name_problems(metadata, fields)
    schema = new_schema(metadata, fields) if not taken else metadata.schema()
    return Evolution(schema, merge.changes), merge.problems + taken


def wanted_columns(
    metadata: TableMetadata,
    schemas: Sequence[pa.Schema],
    reduced: Callable[[pa.Schema], pa.Schema] = lambda columns: columns,
) -> tuple[list[list[NestedField]], list[ColumnProblem]]:
    """The columns that rows of these schemas need, in as few layers as can be, and which no table can have."""
    table, replaced = metadata.schema(), replaced_columns(metadata)
    layers: list[list[NestedField]] = []
    flaws: list[ColumnProblem] = []
    for schema in compatible_schemas([use_table_names(each, table, replaced) for each in schemas]):
        fields, problems = topic_fields(reduced(schema))
        layers.append([*fields, *_origin(table)])
        flaws += problems
    return layers, flaws


def _origin(table: Schema) -> list[NestedField]:
    """Optional where the table's older rows came from elsewhere; where it is required, all rows have it."""
    strict = {column.name for column in table.fields if column.required}
    return [column.model_copy(update={"required": column.name in strict}) for column in origin_fields(required=False)]


def name_problems(metadata: TableMetadata, fields: Sequence[NestedField]) -> list[ColumnProblem]:
    """Names that Iceberg's libraries, and with them all readers, would refuse the whole table for."""
    taken = {folded(field.name) for spec in metadata.partition_specs for field in spec.fields}
    new: list[tuple[str, str]] = []
    for column in fields:
        for path, field_id in _paths(column, ""):
            if field_id <= metadata.last_column_id:
                taken.add(folded(path))
            else:
                new.append((path, column.name))
    problems: list[ColumnProblem] = []
    for path, top in new:
        if folded(path) in taken:
            text = f"the name of column {path!r} is taken in the table by another"
            problems.append(ColumnProblem(top, text, Remedy.NONE))
        taken.add(folded(path))
    return problems


def _paths(field: NestedField, above: str) -> Iterator[tuple[str, int]]:
    """A field and all inside of it, by the paths that tables have for them, with their ids."""
    path = below(above, field.name)
    yield path, field.field_id
    kind = field.field_type
    inside: Sequence[NestedField] = ()
    if isinstance(kind, StructType):
        inside = kind.fields
    elif isinstance(kind, ListType):
        inside = (kind.element_field,)
    elif isinstance(kind, MapType):
        inside = (kind.key_field, kind.value_field)
    for each in inside:
        yield from _paths(each, path)


def new_schema(metadata: TableMetadata, fields: Sequence[NestedField]) -> Schema:
    strict = {column.field_id for column in fields if column.required}
    current = metadata.schema()
    identifiers = [field_id for field_id in current.identifier_field_ids if field_id in strict]
    number = max(schema.schema_id for schema in metadata.schemas) + 1
    return Schema(*fields, schema_id=number, identifier_field_ids=identifiers)
