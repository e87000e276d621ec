"""The tables of a topic: what they are called, and how they come to be."""

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
"""Of the properties and columns that Frazil adds to a table."""

GENERATION = "frazil.generation"
"""How many tables the topic has had under this name, with this one; absent when it is the first."""


def base_identifier(config: Config, topic: str) -> Identifier:
    """The name of a topic's base table."""
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
    """What a table says of itself: whose it is, and how far it is."""
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
    """Make the table with an empty first snapshot and its offsets; if somebody else was first, theirs is returned.

    A table made in place of one that was dropped has a higher generation and a folder of its own: the dropped one may
    live on under another name, and its files are not ours to tidy up.
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
            # The conflict was on the way there, with a name of our own: nobody made the table yet.
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
