"""Finds all base tables of a topic, also those of other settings, because the log keeps what any of them needs.

The table history beside the log has each table that was created. One that is not in this catalog may be in another
and may still need the log. Only a person can decide that it is given up.
"""

from __future__ import annotations

from pyiceberg.table import Table

from frazil.errors import ConfigError
from frazil.lake.catalog.lake import Identifier, dotted
from frazil.lake.tables.table_check import TableStatus, check_table
from frazil.lake.tables.table_history import add_retirement, table_history
from frazil.maintain.context import MaintenanceContext
from frazil.maintain.report import NotOurs
from frazil.store import ObjectStore


def other_base_tables(context: MaintenanceContext, topic: str, own: Identifier) -> list[Table]:
    """Returns the base tables of the topic without `own`. Raises `NotOurs` if one is missing and was not released."""
    found = []
    for identifier in _base_tables(context.store, topic):
        if identifier == own:
            continue
        check = check_table(context.lake, context.store, topic, identifier)
        if check.status is not TableStatus.OK or check.table is None:
            raise NotOurs(
                f"the log of {topic!r} is kept: its base table {dotted(identifier)} is not in this catalog, or "
                f"another has its name. If it is gone for good: `frazil maintain trim {topic} --release "
                f"{dotted(identifier)}`"
            )
        found.append(check.table)
    return found


def release(context: MaintenanceContext, topic: str, name: str) -> None:
    """Retires a base table that is gone for good, so that the log need not be kept for it."""
    known = {dotted(identifier): identifier for identifier in _base_tables(context.store, topic)}
    if name not in known:
        tables = ", ".join(known) or "none"
        raise ConfigError(f"--release: the log of topic {topic!r} is not kept for {name}. It is for: {tables}.")
    check = check_table(context.lake, context.store, topic, known[name])
    if check.status is TableStatus.OK:
        raise ConfigError(f"--release: {name} is there, and says itself what it needs of the log. Drop it first.")
    add_retirement(context.store, topic, check.history[-1])


def _base_tables(store: ObjectStore, topic: str) -> list[Identifier]:
    """Returns the base tables of the topic that were not retired, by the table history."""
    newest = {each.identifier: each for each in table_history(store, topic) if each.role == "base"}
    return [identifier for identifier, entry in newest.items() if entry.uuid is not None]
