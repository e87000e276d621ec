"""Finds and drops unfinished tables: their creator was killed before they got their final name."""

from __future__ import annotations

from pyiceberg.table import Table

from frazil.errors import TableNotFound
from frazil.lake.catalog.lake import Identifier, Lake, calling, dotted
from frazil.lake.commit.offsets import TOPIC, name_of
from frazil.lake.tables.creation import TEMPORARY

PATIENCE_MS = 24 * 60 * 60 * 1000
"""A table is created within seconds, so nobody will finish one that was not changed for a day."""


def unfinished_tables(lake: Lake, table: Table, now_ms: int) -> list[Identifier]:
    """Returns the unfinished tables that were meant to become this one and are old enough to be dropped."""
    identifier = table.name()
    with calling(f"Listing the tables of {dotted(identifier[:-1])}"):
        listed = sorted(tuple(each) for each in lake.catalog.list_tables(identifier[:-1]))
    start = f"{identifier[-1]}{TEMPORARY}"
    topic = table.metadata.properties[TOPIC]
    return [each for each in listed if each[-1].startswith(start) and _is_given_up(lake, each, topic, now_ms)]


def drop_unfinished(lake: Lake, table: Table, unfinished: list[Identifier]) -> None:
    """Drops the names of unfinished tables. Their files are orphans in the folder of the table that got the name."""
    with calling(f"Dropping unfinished tables of {name_of(table)}"):
        for identifier in unfinished:
            _drop(lake, identifier)


def _drop(lake: Lake, identifier: Identifier) -> None:
    try:
        with calling(f"Dropping {dotted(identifier)}"):
            lake.catalog.drop_table(identifier)
    except TableNotFound:
        return


def _is_given_up(lake: Lake, identifier: Identifier, topic: str, now_ms: int) -> bool:
    try:
        metadata = lake.load(identifier).metadata
    except TableNotFound:
        return False
    return metadata.properties.get(TOPIC) == topic and metadata.last_updated_ms < now_ms - PATIENCE_MS
