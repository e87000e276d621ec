"""Adopts a table that Frazil did not create as the base table of a topic."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
from pyiceberg.table import Table, Transaction
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AssertRefSnapshotId, SetPropertiesUpdate

from frazil.errors import CasConflict, TableForeign
from frazil.lake.catalog.lake import Lake, calling
from frazil.lake.commit.offsets import OFFSETS, TOPIC, name_of, offsets_to_json
from frazil.lake.evolution import plan_evolution, schema_updates
from frazil.lake.pyiceberg_internals import stage, write_empty_snapshot
from frazil.lake.schema.table_schema import FORMAT_VERSION
from frazil.lake.tables.tables import own_properties

_TRIES = 10


def adopt_table(
    lake: Lake,
    table: Table,
    topic: str,
    topic_schema: pa.Schema,
    offsets: Mapping[int, int],
    epochs: Mapping[int, str],
) -> Table:
    """Makes the table the base table of this topic.

    One commit adds missing columns, Frazil's properties, the offsets and a snapshot. Raises `SchemaEvolution` if the
    table's schema does not fit, and `TableForeign` if another topic has adopted it meanwhile.
    """
    for _ in range(_TRIES):
        _check_unclaimed(table, topic)
        try:
            _take(lake, table, topic, topic_schema, offsets, epochs)
            return lake.load(table.name())
        except CasConflict:
            table = lake.load(table.name())
            if table.metadata.properties.get(TOPIC) == topic:
                return table
    raise CasConflict(f"Table {name_of(table)} is being changed by others all the time; it will be adopted later.")


def check_adoption(table: Table, topic: str, topic_schema: pa.Schema) -> None:
    """Raises what `adopt_table` would raise, without changing anything."""
    _check_unclaimed(table, topic)
    plan_evolution(table, topic_schema)


def _check_unclaimed(table: Table, topic: str) -> None:
    owner = table.metadata.properties.get(TOPIC)
    if owner is not None:
        raise TableForeign(f"Table {name_of(table)} belongs to topic {owner!r}; topic {topic!r} cannot have it too.")
    version = table.metadata.format_version
    if version != FORMAT_VERSION:
        raise TableForeign(
            f"Table {name_of(table)} has version {version} of the table format, but Frazil writes version "
            f"{FORMAT_VERSION}. Name another in topics.{topic}.table.name."
        )


def _take(
    lake: Lake,
    table: Table,
    topic: str,
    topic_schema: pa.Schema,
    offsets: Mapping[int, int],
    epochs: Mapping[int, str],
) -> None:
    evolution = plan_evolution(table, topic_schema)
    requirements, updates = schema_updates(table.metadata, evolution)
    head = table.metadata.refs.get(MAIN_BRANCH)
    requirements.append(AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=head.snapshot_id if head else None))
    updates.append(SetPropertiesUpdate(updates=own_properties(topic, "base", offsets, epochs)))
    with calling(f"Adopting table {name_of(table)}"):
        change = Transaction(table)
        stage(change, tuple(updates))
        updates += write_empty_snapshot(change, {OFFSETS: offsets_to_json(offsets)})
        lake.catalog.commit_table(table, tuple(requirements), tuple(updates))
