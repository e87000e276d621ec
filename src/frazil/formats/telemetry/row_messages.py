"""Turns rows into OTLP messages again, which shows that rows keep everything."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as types
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, EntityRef, InstrumentationScope
from opentelemetry.proto.resource.v1.resource_pb2 import Resource

from frazil.formats.telemetry.any_values import TEXT, from_text
from frazil.formats.telemetry.attributes import TYPES, to_pairs
from frazil.formats.telemetry.string_references import BLANK, complete
from frazil.log.schema.columns import NANOSECONDS

Row = dict[str, Any]

_NANOSECONDS = {"s": 10**9, "ms": 10**6, "us": 1000, "ns": 1}


def plain_rows(table: pa.Table) -> Iterator[Row]:
    """Yields rows of the log or of a table, with times as nanoseconds since 1970."""
    columns: dict[str, pa.ChunkedArray] = {}
    for name in table.column_names:
        column = table[name]
        if types.is_timestamp(column.type):
            column = pc.multiply(column.cast(pa.int64()), _NANOSECONDS[column.type.unit])
            if name + NANOSECONDS in table.column_names:
                column = pc.add(column, table[name + NANOSECONDS].cast(pa.int64()))
        columns[name] = column
    for batch in pa.table(columns).to_batches():
        yield from batch.to_pylist()


def any_value(row: Row, name: str) -> AnyValue | None:
    """Returns the value in the columns `name` and `name_type`; None if there is none."""
    text, types = row[name], row[f"{name}_type"]
    if text is None and types is None:
        return None
    letter, _, references = (types or TEXT).partition(BLANK)
    value = from_text(text, letter)
    if references:
        complete(value, references)
    return value


def pairs(row: Row, name: str) -> Any:
    return to_pairs(row[name], row[name + TYPES])


def resource_of(row: Row) -> Resource | None:
    if row["resource_attributes"] is None:
        return None
    return Resource(
        attributes=pairs(row, "resource_attributes"),
        dropped_attributes_count=row["resource_dropped_attributes_count"],
        entity_refs=[EntityRef(**each) for each in row["resource_entity_refs"]],
    )


def scope_of(row: Row) -> InstrumentationScope | None:
    if row["scope_attributes"] is None:
        return None
    return InstrumentationScope(
        name=row["scope_name"],
        version=row["scope_version"],
        attributes=pairs(row, "scope_attributes"),
        dropped_attributes_count=row["scope_dropped_attributes_count"],
    )
