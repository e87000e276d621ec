"""Schema evolution: tables follow the schemas of their topics.

Additive changes (new columns, wider types) are made automatically. All others stop the topic until a person decides.
"""

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
    """A planned change of a table's schema."""

    schema: Schema
    changes: Sequence[str]
    """The changes in words. It is empty if the table needs none."""
    order: SortOrder | None = None
    """The new sort order, if the current one would sort by a replaced column."""
    properties: Mapping[str, str] = field(default_factory=dict)


def plan_evolution(table: Table, *schemas: pa.Schema) -> Evolution:
    """Plans the change that rows of these schemas need.

    Raises `SchemaEvolution` with all problems if there are any.
    """
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
    """Adds every column that rows of these schemas need, and returns the table.

    If a person has decided that rows that do not fit go to the dead-letter table, only the possible changes are made.
    """
    return apply_evolution(lake, table, lambda current: plan_following(current, *schemas))


def follow_first(lake: Lake, table: Table, *schemas: pa.Schema) -> Table:
    """Follows the schemas in order and leaves out those that clash with earlier ones.

    Raises `SchemaEvolution` if none can be followed. Rows of the schemas that were left out are checked against the
    changed table when they are written again.
    """
    return apply_evolution(lake, table, lambda current: _plan_first(current, schemas))


def evolved_schema(metadata: TableMetadata, *schemas: pa.Schema) -> Schema:
    """Returns the schema that the table would have after all possible changes for rows of these schemas."""
    evolution, _ = _plan_possible(metadata, schemas)
    return evolution.schema


def must_change_for(metadata: TableMetadata, rows: pa.Schema) -> bool:
    """Returns whether the table has to change before it can take rows of this schema, or cannot take them at all."""
    plan = plan_merge if on_mismatch_of(metadata) == STOP else _plan_possible
    evolution, problems = plan(metadata, (rows,))
    return bool(evolution.changes or problems)


def follow_query(lake: Lake, table: Table, result: Schema) -> Table:
    """Adds every column of the query's result to a derived table, and returns the table."""
    return apply_evolution(lake, table, lambda current: _plan_result(current, result))


def follow_dead_letters(lake: Lake, table: Table) -> Table:
    """Adds the columns that a dead-letter table of an older version lacks, and returns the table."""
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
    """Stores in the table's properties what is done with rows that do not fit it."""
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
    """Plans only the changes that are possible. Rows with values in the other columns will not fit the table."""
    wanted, flaws = wanted_columns(metadata, schemas, without_repeated_names)
    _, problems = _merge(metadata, wanted)
    impossible = {each.column for each in (*flaws, *problems) if each.remedy is Remedy.NONE}
    possible = [[column for column in fields if column.name not in impossible] for fields in wanted]
    evolution, _ = _merge(metadata, possible)
    return evolution, []


def schema_updates(metadata: TableMetadata, evolution: Evolution) -> tuple[list[TableRequirement], list[TableUpdate]]:
    """Returns the requirements and updates of a commit that makes the planned change.

    The requirements make the commit fail if the schema has changed since it was planned.
    """
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
            # The table has changed. It may have all that is needed now, or need another change.
            pass
        table = lake.load(table.name())
    if not plan(table).changes:
        return table
    raise CasConflict(f"The schema of table {name_of(table)} is being changed by others all the time; try later.")


def plan_merge(metadata: TableMetadata, schemas: Sequence[pa.Schema]) -> tuple[Evolution, list[ColumnProblem]]:
    """Plans the change for rows of these schemas and returns it with the problems that stand in its way."""
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
    """Returns the columns that rows of these schemas need, and the columns that no table can have.

    Columns of one name and incompatible types are in different layers. There are as few layers as possible.
    """
    table, replaced = metadata.schema(), replaced_columns(metadata)
    layers: list[list[NestedField]] = []
    flaws: list[ColumnProblem] = []
    for schema in compatible_schemas([use_table_names(each, table, replaced) for each in schemas]):
        fields, problems = topic_fields(reduced(schema))
        layers.append([*fields, *_origin(table)])
        flaws += problems
    return layers, flaws


def _origin(table: Schema) -> list[NestedField]:
    """Returns the columns for partition and offset. They are required only where the table has them as required.

    They are optional in adopted tables, whose older rows did not come from the log.
    """
    strict = {column.name for column in table.fields if column.required}
    return [column.model_copy(update={"required": column.name in strict}) for column in origin_fields(required=False)]


def name_problems(metadata: TableMetadata, fields: Sequence[NestedField]) -> list[ColumnProblem]:
    """Returns new columns whose names are taken: Iceberg's libraries could not load a table with such names."""
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
    """Yields path and id of a field and of all fields inside it."""
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
