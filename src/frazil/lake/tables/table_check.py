"""Checks whether the table of a name is the one that Frazil created.

The check compares the table in the catalog with the table history that is stored beside the log.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pyiceberg.table import Table

from frazil.errors import CatalogLost, IcebergError, TableDropped, TableForeign, TableReplaced
from frazil.lake.catalog.lake import Identifier, Lake, dotted
from frazil.lake.commit.offsets import ROLE, TOPIC
from frazil.lake.commit.resume_command import resume_command
from frazil.lake.tables.table_history import HistoryEntry, table_history
from frazil.lake.tables.tables import GENERATION, Role, find_table
from frazil.store import ObjectStore


class TableStatus(Enum):
    OK = "fine"
    NEVER_CREATED = "never made"
    DROPPED = "dropped"
    REPLACED = "replaced by another"
    FOREIGN = "somebody else's"


@dataclass(frozen=True)
class TableCheck:
    topic: str
    role: Role
    identifier: Identifier
    status: TableStatus
    table: Table | None
    history: list[HistoryEntry]
    """The tables that the topic has had under this name, and which of them were retired, oldest first."""
    lost: CatalogLost | None = None
    """This is set if the whole catalog is empty, and not only this table is missing."""

    @property
    def generation(self) -> int:
        """The generation that the next table of this name will have."""
        return len(self.history) + 1

    @property
    def is_claimed(self) -> bool:
        """Returns whether the table exists and its properties say that it is this table of the topic."""
        return self.table is not None and _claims(self.table, self.topic, self.role)

    @property
    def is_unclaimed(self) -> bool:
        """Returns whether the table exists and its properties name no topic."""
        return self.table is not None and TOPIC not in self.table.metadata.properties

    def error(self) -> IcebergError:
        """Returns the error to raise when the table cannot be used as it is."""
        name, topic = dotted(self.identifier), self.topic
        if self.lost is not None:
            return self.lost.again()
        if self.table is None:
            return TableDropped(
                f"Table {name} of topic {topic!r} was dropped; {self._command('recreate')} makes it anew. If it is "
                f"still in the warehouse, `frazil maintain register` has the catalog find it again."
            )
        if self.status is TableStatus.REPLACED:
            last = next((entry.uuid for entry in reversed(self.history) if entry.uuid), None)
            return TableReplaced(
                f"Table {name} is not the one that topic {topic!r} was moved to (its id is "
                f"{self.table.metadata.table_uuid}, not {last}). {self._instead()}"
            )
        return TableForeign(f"{self._whose()} {self._elsewhere()}")

    def _command(self, decision: str) -> str:
        return resume_command(self.topic, decision, self.role, dotted(self.identifier))

    def _instead(self) -> str:
        if self.is_claimed or self.role == "base":
            return f"{self._command('accept')} goes on with it; or put the old one back."
        return f"Rename it, and put the old one back or decide {self._command('recreate')}."

    def _elsewhere(self) -> str:
        """Returns the advice for a table that does not belong to this topic."""
        match self.role:
            case "base":
                return f"Name another in topics.{self.topic}.table.name{self._or_adopt()}."
            case "derived":
                return f"Give the derived table another name in topics.{self.topic}.derived."
            case "dead-letter":
                return f"Rename it: the dead letters of topic {self.topic!r} need that name."

    def _whose(self) -> str:
        assert self.table
        owner = self.table.metadata.properties.get(TOPIC)
        name = dotted(self.identifier)
        if owner is None:
            return f"Table {name} was not made by Frazil."
        role = self.table.metadata.properties.get(ROLE, "base")
        return f"Table {name} is the {role} table of topic {owner!r}, not the {self.role} table of {self.topic!r}."

    def _or_adopt(self) -> str:
        if not self.is_unclaimed:
            return ""
        return f", or set topics.{self.topic}.table.adopt to use this one if its schema fits"


def check_table(
    lake: Lake, store: ObjectStore, topic: str, identifier: Identifier, role: Role = "base"
) -> TableCheck:
    """Loads the table and compares it with the table history of the topic."""
    history = table_history(store, topic, identifier)
    table = find_table(lake, identifier)
    status = _status_of(table, history, topic, role)
    empty = status is TableStatus.DROPPED and lake.is_empty()
    loss = catalog_lost(lake, f"{dotted(identifier)}, the table of topic {topic!r}") if empty else None
    return TableCheck(topic, role, identifier, status, table, history, loss)


def catalog_lost(lake: Lake, what: str) -> CatalogLost:
    return CatalogLost(
        f"The {lake.where} is empty and does not know {what}: it was lost, or another one is configured. Restore it "
        f"from a backup, or let `frazil maintain register` find the tables in the warehouse; it shows with --dry-run "
        f"what it would do. Records are taken in meanwhile, and moved when the tables are back."
    )


def _status_of(table: Table | None, history: list[HistoryEntry], topic: str, role: Role) -> TableStatus:
    last = history[-1].uuid if history else None
    if table is None:
        return TableStatus.DROPPED if last else TableStatus.NEVER_CREATED
    properties = table.metadata.properties
    known = last == table.metadata.table_uuid
    if TOPIC not in properties:
        return TableStatus.REPLACED if last and not known else TableStatus.FOREIGN
    if not _claims(table, topic, role):
        return TableStatus.FOREIGN
    if known or not history:
        return TableStatus.OK
    # A process created the table as successor of the last one, and was killed before it added the history entry.
    succeeds = properties.get(GENERATION) == str(len(history) + 1)
    return TableStatus.OK if succeeds else TableStatus.REPLACED


def _claims(table: Table, topic: str, role: Role) -> bool:
    properties = table.metadata.properties
    return properties.get(TOPIC) == topic and properties.get(ROLE, "base") == role
