"""Names the tables of a topic and creates them with Frazil's properties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pyiceberg.schema import Schema
from pyiceberg.table import Table

from frazil.config.model import DEAD_LETTER, Config
from frazil.config.sections.lake import TableLayoutConfig
from frazil.errors import CasConflict, ConfigError, TableExists, TableNotFound
from frazil.lake.catalog.lake import Identifier, Lake, dotted
from frazil.lake.commit.offsets import EPOCH, ROLE, TOPIC, offset_properties
from frazil.lake.schema.layout import errors_name_setting, layout_key, layout_properties, partition_spec, sort_order
from frazil.lake.tables.creation import NewTable, create_with_snapshot

Role = Literal["base", "derived", "dead-letter"]

VERSION = "frazil.version"
CURRENT_VERSION = "1"
"""The version of the properties and columns that Frazil adds to a table."""

GENERATION = "frazil.generation"
"""The table property that counts the tables that the topic has had under this name. The first table lacks it."""


def base_identifier(config: Config, topic: str) -> Identifier:
    parts = tuple(config.base_table(topic).split("."))
    if not all(parts):
        given = config.topic(topic).table.name
        raise ConfigError(f"topics.{topic}.table.name: {given!r} is no name; write table or namespace.table.")
    return parts


def dead_letter_identifier(config: Config, topic: str) -> Identifier:
    base = base_identifier(config, topic)
    return (*base[:-1], base[-1] + DEAD_LETTER)


def derived_identifier(config: Config, topic: str, name: str) -> Identifier:
    return (*base_identifier(config, topic)[:-1], name)


def own_properties(topic: str, role: Role, offsets: Mapping[int, int], epochs: Mapping[int, str]) -> dict[str, str]:
    """Returns the properties that say which topic and role a table has, and up to which offsets it has rows."""
    return {
        VERSION: CURRENT_VERSION,
        TOPIC: topic,
        ROLE: role,
        **offset_properties(offsets),
        **{f"{EPOCH}{partition}": epoch for partition, epoch in epochs.items()},
    }


def create_table(
    lake: Lake,
    identifier: Identifier,
    schema: Schema,
    *,
    topic: str,
    role: Role,
    layout: TableLayoutConfig,
    offsets: Mapping[int, int],
    epochs: Mapping[int, str],
    generation: int = 1,
) -> Table:
    """Creates a table with an empty first snapshot and its offsets. If somebody else was first, returns their table.

    A successor of a dropped table has a higher generation and a folder of its own: the dropped table may still exist
    under another name, and its files must not be deleted.
    """
    later = {GENERATION: str(generation)} if generation > 1 else {}
    own = own_properties(topic, role, offsets, epochs) | later
    with errors_name_setting(layout_key(topic, identifier[-1] if role == "derived" else None)):
        plan = NewTable(
            schema=schema,
            spec=partition_spec(layout, schema),
            order=sort_order(layout, schema),
            properties=layout_properties(layout, lake.config.iceberg) | own,
            offsets=offsets,
            folder=identifier[-1] if generation == 1 else f"{identifier[-1]}-{generation}",
        )
    try:
        return lake.load(identifier)
    except TableNotFound:
        pass
    lake.ensure_namespace(identifier[:-1])
    try:
        return create_with_snapshot(lake, identifier, plan)
    except (TableExists, CasConflict) as conflict:
        found = find_table(lake, identifier)
        if found is None:
            # The conflict was about our own temporary name: nobody has created the table yet.
            raise CasConflict(f"Making table {dotted(identifier)}: {conflict}") from conflict
        return found


def find_table(lake: Lake, identifier: Identifier) -> Table | None:
    try:
        return lake.load(identifier)
    except TableNotFound:
        return None


__all__ = [
    "CURRENT_VERSION",
    "GENERATION",
    "VERSION",
    "Role",
    "base_identifier",
    "create_table",
    "dead_letter_identifier",
    "derived_identifier",
    "dotted",
    "find_table",
    "own_properties",
]
