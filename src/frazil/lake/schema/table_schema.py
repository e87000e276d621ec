"""Makes the schemas of base tables, derived tables and dead-letter tables.

Each column of the topic is a column of the table. A timestamp with nanoseconds has a second column for the
nanoseconds that microseconds leave out. Each row has the partition and offset of its record in the log.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
from pyiceberg.schema import Schema, assign_fresh_schema_ids
from pyiceberg.types import (
    BinaryType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
    TimestamptzType,
)

from frazil.errors import ConfigError, SchemaEvolution
from frazil.formats import kafka
from frazil.lake.schema.column_merge import ColumnProblem, Remedy
from frazil.lake.schema.types import Unmappable, convert_field, is_nanoseconds
from frazil.log.schema.columns import NANOSECONDS, OFFSET, PARTITION, column_problems

FORMAT_VERSION = 2
"""The version of the table format that Frazil writes. It is the newest that all readers support."""


def base_table_schema(topic_schema: pa.Schema) -> Schema:
    """Returns the schema of a base table. Raises `SchemaEvolution` with every column that no table can have."""
    fields, problems = topic_fields(topic_schema)
    if problems:
        raise SchemaEvolution(f"No table can hold this topic: {'; '.join(each.text for each in problems)}.")
    return with_fresh_ids([*fields, *origin_fields()])


def derived_table_schema(result: pa.Schema, where: str) -> Schema:
    """Returns the schema of a table for the result of a query. All of its columns are optional."""
    origin = [field for field in origin_fields(required=False) if field.name in result.names]
    own = [field.with_nullable(True) for field in result if field.name not in (PARTITION, OFFSET)]
    fields, problems = topic_fields(pa.schema(own))
    if problems:
        raise ConfigError(f"{where}: no table can hold its result: {'; '.join(each.text for each in problems)}.")
    return with_fresh_ids([*fields, *origin])


def dead_letter_schema() -> Schema:
    """Returns the schema of dead-letter tables."""
    return with_fresh_ids(
        [
            NestedField(0, "topic", StringType(), required=True),
            NestedField(0, "error", StringType(), required=True),
            NestedField(0, "raw", BinaryType(), required=False),
            NestedField(0, "schema_version", IntegerType(), required=False),
            NestedField(0, "failed_at", TimestamptzType(), required=True),
            NestedField(0, "key", BinaryType(), required=False, doc="of a record from Kafka"),
            NestedField(0, "value", BinaryType(), required=False, doc="of a record from Kafka"),
            NestedField(0, kafka.PARTITION, IntegerType(), required=False, doc="Kafka's own partition"),
            NestedField(0, kafka.OFFSET, LongType(), required=False, doc="Kafka's own offset"),
            NestedField(0, "replayed_at", TimestamptzType(), required=False, doc="when the base table got the row"),
            *origin_fields(),
        ]
    )


def origin_fields(required: bool = True) -> list[NestedField]:
    return [
        NestedField(0, PARTITION, IntegerType(), required=required, doc="partition of the log"),
        NestedField(0, OFFSET, LongType(), required=required, doc="offset in that partition"),
    ]


def topic_fields(topic_schema: pa.Schema) -> tuple[list[NestedField], list[ColumnProblem]]:
    """Returns the table's columns for the columns of a topic, without field ids, and their problems.

    Columns that have had only nulls are left out, because their type is not known yet and could not be changed later.
    """
    fields: list[NestedField] = []
    problems: list[ColumnProblem] = []
    for column in topic_schema:
        try:
            fields += _columns(column)
        except Unmappable as error:
            problems.append(ColumnProblem(column.name, str(error), Remedy.NONE))
    problems += [ColumnProblem(*flaw, Remedy.NONE) for flaw in column_problems(topic_schema)]
    return fields, problems


def with_fresh_ids(fields: Iterable[NestedField]) -> Schema:
    """Returns a schema of these fields, with ids from 1 on in the order in which catalogs assign them."""
    return assign_fresh_schema_ids(Schema(*fields))


def _columns(column: pa.Field) -> list[NestedField]:
    required = not column.nullable
    if is_nanoseconds(column.type):
        kind = TimestamptzType() if column.type.tz else TimestampType()
        rest = f"nanoseconds (0 to 999) to add to {column.name}"
        return [
            NestedField(0, column.name, kind, required=required),
            NestedField(0, column.name + NANOSECONDS, IntegerType(), required=required, doc=rest),
        ]
    field = convert_field(column, column.name, required)
    return [field] if field is not None else []
