"""Opens the tables of a topic. A table that never existed is created, and one that exists is checked."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyiceberg.schema import Schema
from pyiceberg.table import Table

from frazil.config.model import Config
from frazil.config.sections.lake import TableLayoutConfig
from frazil.failpoints import failpoint
from frazil.lake.catalog.lake import Identifier, Lake, dotted
from frazil.lake.evolution import follow_topic
from frazil.lake.schema.table_schema import base_table_schema, dead_letter_schema
from frazil.lake.tables.adoption import adopt_table
from frazil.lake.tables.table_check import TableCheck, TableStatus, check_table
from frazil.lake.tables.table_history import add_table
from frazil.lake.tables.tables import (
    Role,
    base_identifier,
    create_table,
    dead_letter_identifier,
    derived_identifier,
)
from frazil.store import ObjectStore

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class WantedTable:
    """A table that a topic needs, with all that is needed to create it."""

    topic: str
    role: Role
    identifier: Identifier
    schema: Schema
    layout: TableLayoutConfig
    offsets: Mapping[int, int]
    epochs: Mapping[int, str]


def open_base_table(
    lake: Lake,
    store: ObjectStore,
    config: Config,
    topic: str,
    topic_schema: pa.Schema,
    log_starts: Mapping[int, int],
    epochs: Mapping[int, str],
) -> Table:
    """Opens the base table of a topic and adds the columns that the topic's rows need.

    A table that never existed is created, with the start of the log as its offsets. Raises `TableDropped`,
    `TableReplaced`, `TableForeign` or `SchemaEvolution` if a person has to decide.
    """
    wanted = wanted_base_table(config, topic, topic_schema, log_starts, epochs)
    check = check_table(lake, store, topic, wanted.identifier, "base")
    if check.status is TableStatus.FOREIGN and check.is_unclaimed and config.topic(topic).table.adopt:
        assert check.table
        table = adopt_table(lake, check.table, topic, topic_schema, log_starts, epochs)
        add_table(store, topic, wanted.identifier, table, "base")
        return table
    return follow_topic(lake, _open(lake, store, check, wanted), topic_schema)


def find_base_table(lake: Lake, store: ObjectStore, config: Config, topic: str) -> Table | None:
    """Returns the base table as it is, or None if `open_base_table` would change something or raise."""
    identifier = base_identifier(config, topic)
    check = check_table(lake, store, topic, identifier, "base")
    if check.status is not TableStatus.OK or check.table is None:
        return None
    add_table(store, topic, identifier, check.table, "base")
    return check.table


def open_dead_letter_table(
    lake: Lake, store: ObjectStore, config: Config, topic: str, offsets: Mapping[int, int], epochs: Mapping[int, str]
) -> Table:
    """Opens the dead-letter table of a topic. It is created if it never existed."""
    layout = TableLayoutConfig()
    identifier = dead_letter_identifier(config, topic)
    return open_table(
        lake, store, WantedTable(topic, "dead-letter", identifier, dead_letter_schema(), layout, offsets, epochs)
    )


def open_derived_table(
    lake: Lake,
    store: ObjectStore,
    config: Config,
    topic: str,
    name: str,
    schema: Schema,
    offsets: Mapping[int, int],
    epochs: Mapping[int, str],
) -> Table:
    """Opens a derived table of a topic. If it never existed, it is created with these offsets."""
    layout = config.topic(topic).derived[name]
    identifier = derived_identifier(config, topic, name)
    return open_table(lake, store, WantedTable(topic, "derived", identifier, schema, layout, offsets, epochs))


def open_table(lake: Lake, store: ObjectStore, wanted: WantedTable) -> Table:
    check = check_table(lake, store, wanted.topic, wanted.identifier, wanted.role)
    return _open(lake, store, check, wanted)


def accept_table(
    lake: Lake,
    store: ObjectStore,
    check: TableCheck,
    topic_schema: pa.Schema,
    log_starts: Mapping[int, int],
    epochs: Mapping[int, str],
) -> Table:
    """Accepts the table that exists now, although it is not the one that Frazil created, because a person decided so.

    A base table without offsets is adopted as if no record of the topic had been moved to it.
    """
    if check.table is None:
        raise check.error()
    table = check.table
    if check.is_unclaimed and check.role == "base":
        table = adopt_table(lake, table, check.topic, topic_schema, log_starts, epochs)
    elif not check.is_claimed:
        raise check.error()
    add_table(store, check.topic, check.identifier, table, check.role)
    return table


def wanted_base_table(
    config: Config,
    topic: str,
    topic_schema: pa.Schema,
    log_starts: Mapping[int, int],
    epochs: Mapping[int, str],
) -> WantedTable:
    layout = config.topic(topic).table
    identifier = base_identifier(config, topic)
    return WantedTable(topic, "base", identifier, base_table_schema(topic_schema), layout, log_starts, epochs)


def _open(lake: Lake, store: ObjectStore, check: TableCheck, wanted: WantedTable) -> Table:
    if check.status is TableStatus.NEVER_CREATED:
        return _create(lake, store, wanted, check.generation)
    if check.status is not TableStatus.OK:
        raise check.error()
    assert check.table
    add_table(store, wanted.topic, wanted.identifier, check.table, wanted.role)
    return check.table


def _create(lake: Lake, store: ObjectStore, wanted: WantedTable, generation: int) -> Table:
    create_table(
        lake,
        wanted.identifier,
        wanted.schema,
        topic=wanted.topic,
        role=wanted.role,
        layout=wanted.layout,
        offsets=wanted.offsets,
        epochs=wanted.epochs,
        generation=generation,
    )
    # Somebody else may have created a table of this name first, and it may not be Frazil's.
    check = check_table(lake, store, wanted.topic, wanted.identifier, wanted.role)
    if check.status is not TableStatus.OK:
        raise check.error()
    assert check.table
    if wanted.role == "base" and (gone := sum(wanted.offsets.values())):
        logger.warning(
            "a new table begins without the records that are not in the log any more",
            extra={"topic": wanted.topic, "table": dotted(wanted.identifier), "records": gone},
        )
    failpoint("create.unmarked")
    add_table(store, wanted.topic, wanted.identifier, check.table, wanted.role)
    return check.table
