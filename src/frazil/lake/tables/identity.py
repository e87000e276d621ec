"""Whether the table of a name is the one that Frazil made, by what the catalog has and what the log remembers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pyiceberg.table import Table

from frazil.errors import CatalogLost, IcebergError, TableDropped, TableForeign, TableReplaced
from frazil.lake.catalog.lake import Identifier, Lake, dotted
from frazil.lake.commit.offsets import ROLE, TOPIC
from frazil.lake.commit.remedies import resume_command
from frazil.lake.tables.markers import Marker, markers
from frazil.lake.tables.tables import GENERATION, Role, find_table
from frazil.store import ObjectStore


class Standing(Enum):
    FINE = "fine"
    ABSENT = "never made"
    DROPPED = "dropped"
    REPLACED = "replaced by another"
    FOREIGN = "somebody else's"


@dataclass(frozen=True)
class Check:
    topic: str
    role: Role
    identifier: Identifier
    standing: Standing
    table: Table | None
    history: list[Marker]
    """All tables that the topic has had under this name, and when each was done with."""
    lost: CatalogLost | None = None
    """Set when the whole catalog is empty, and not this table alone is gone."""

    @property
    def generation(self) -> int:
        """Of the next table of this name."""
        return len(self.history) + 1

    @property
    def is_claimed(self) -> bool:
        """Whether the table is there and says that it is this table of the topic."""
        return self.table is not None and _claims(self.table, self.topic, self.role)

    @property
    def is_unclaimed(self) -> bool:
        """Whether the table is there and says of no topic that it is its own."""
        return self.table is not None and TOPIC not in self.table.metadata.properties

    def error(self) -> IcebergError:
        """What to raise when the table cannot be used as it is."""
        name, topic = dotted(self.identifier), self.topic
        if self.lost is not None:
            return self.lost.again()
        if self.table is None:
            return TableDropped(
                f"Table {name} of topic {topic!r} was dropped; {self._command('recreate')} makes it anew. If it is "
                f"still in the warehouse, `frazil maintain register` has the catalog find it again."
            )
        if self.standing is Standing.REPLACED:
            last = next((marker.uuid for marker in reversed(self.history) if marker.uuid), None)
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
        """What to do about a table of somebody else's."""
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


def check_table(lake: Lake, store: ObjectStore, topic: str, identifier: Identifier, role: Role = "base") -> Check:
    """How the table of this name stands to the topic."""
    history = markers(store, topic, identifier)
    table = find_table(lake, identifier)
    standing = _standing(table, history, topic, role)
    empty = standing is Standing.DROPPED and lake.is_empty()
    loss = catalog_lost(lake, f"{dotted(identifier)}, the table of topic {topic!r}") if empty else None
    return Check(topic, role, identifier, standing, table, history, loss)


def catalog_lost(lake: Lake, what: str) -> CatalogLost:
    return CatalogLost(
        f"The {lake.where} is empty and does not know {what}: it was lost, or another one is configured. Restore it "
        f"from a backup, or let `frazil maintain register` find the tables in the warehouse; it shows with --dry-run "
        f"what it would do. Records are taken in meanwhile, and moved when the tables are back."
    )


def _standing(table: Table | None, history: list[Marker], topic: str, role: Role) -> Standing:
    last = history[-1].uuid if history else None
    if table is None:
        return Standing.DROPPED if last else Standing.ABSENT
    properties = table.metadata.properties
    known = last == table.metadata.table_uuid
    if TOPIC not in properties:
        return Standing.REPLACED if last and not known else Standing.FOREIGN
    if not _claims(table, topic, role):
        return Standing.FOREIGN
    if known or not history:
        return Standing.FINE
    # Made in place of the last one by somebody who did not live to leave the marker.
    succeeds = properties.get(GENERATION) == str(len(history) + 1)
    return Standing.FINE if succeeds else Standing.REPLACED


def _claims(table: Table, topic: str, role: Role) -> bool:
    properties = table.metadata.properties
    return properties.get(TOPIC) == topic and properties.get(ROLE, "base") == role
