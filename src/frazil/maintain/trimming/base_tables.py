"""The base tables that a log feeds: all of them, also those of other settings, keep what they need in it.

Each table that was made left a marker beside the log. One that is not in this catalog may be in another, and may need
the log yet; only a person can say that it is done with.
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
    """The base tables of the topic but for `own`. `NotOurs` when one is missing that nobody has let go of."""
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
    """Remember that a base table is gone for good, so that the log need not be kept for it."""
    known = {dotted(identifier): identifier for identifier in _base_tables(context.store, topic)}
    if name not in known:
        tables = ", ".join(known) or "none"
        raise ConfigError(f"--release: the log of topic {topic!r} is not kept for {name}. It is for: {tables}.")
    check = check_table(context.lake, context.store, topic, known[name])
    if check.status is TableStatus.OK:
        raise ConfigError(f"--release: {name} is there, and says itself what it needs of the log. Drop it first.")
    add_retirement(context.store, topic, check.history[-1])


def _base_tables(store: ObjectStore, topic: str) -> list[Identifier]:
    """Those whose last marker stands for a table."""
    newest = {each.identifier: each for each in table_history(store, topic) if each.role == "base"}
    return [identifier for identifier, entry in newest.items() if entry.uuid is not None]
