"""What tests beside this share."""

from __future__ import annotations

from pyiceberg.schema import Schema
from pyiceberg.table import Table
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AssertCurrentSchemaId,
    SetCurrentSchemaUpdate,
    SetPropertiesUpdate,
)
from pyiceberg.types import NestedField, StringType

from frazil.maintain.migration import Change, Migration, Step


def add_column(table: Table) -> Change:
    schema = table.schema()
    number = table.metadata.last_column_id + 1
    extended = Schema(*schema.fields, NestedField(number, "source", StringType()), schema_id=schema.schema_id + 1)
    return Change(
        (AddSchemaUpdate(schema_=extended), SetCurrentSchemaUpdate(schema_id=-1)),
        (AssertCurrentSchemaId(current_schema_id=schema.schema_id),),
    )


def rename_property(table: Table) -> Change:
    return Change((SetPropertiesUpdate(updates={"frazil.flavour": "vanilla"}),))


STEPS = {1: Step("adds the column source", add_column), 2: Step("says the flavour", rename_property)}


TO_THREE = Migration(STEPS, newest=3)
