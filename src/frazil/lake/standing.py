"""Whether the table of a name is the one that Frazil made, by what the catalog has and what the log remembers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from pyiceberg.table import Table

from frazil.errors import IcebergError, TableDropped, TableForeign, TableReplaced
from frazil.lake.catalog import Identifier, Lake, dotted
from frazil.lake.markers import Marker, markers
from frazil.lake.offsets import ROLE, TOPIC
from frazil.lake.tables import GENERATION, Role, find_table
from frazil.log.store import ObjectStore


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
    """All tables that the topic has had under this name."""

    @property
    def is_unclaimed(self) -> bool:
        """Whether the table is there and says of no topic that it is its own."""
        return self.table is not None and TOPIC not in self.table.metadata.properties

    def error(self) -> IcebergError:
        """What to raise when the table cannot be used as it is."""
        name, topic = dotted(self.identifier), self.topic
        if self.table is None:
            return TableDropped(
                f"Table {name} of topic {topic!r} was dropped; `frazil topics resume {topic} --recreate` makes it "
                f"anew."
            )
        if self.standing is Standing.REPLACED:
            assert self.table
            return TableReplaced(
                f"Table {name} is not the one that topic {topic!r} was moved to (its id is "
                f"{self.table.metadata.table_uuid}, not {self.history[-1].uuid}). `frazil topics resume {topic} "
                f"--accept` goes on with it; or put the old one back."
            )
        return TableForeign(f"{self._whose()} Name another in topics.{topic}.table.name{self._or_adopt()}.")

    def _whose(self) -> str:
        assert self.table
        owner = self.table.metadata.properties.get(TOPIC)
        name = dotted(self.identifier)
        if owner is None:
            return f"Table {name} was not made by Frazil."
        role = self.table.metadata.properties.get(ROLE, "base")
        return f"Table {name} is the {role} table of topic {owner!r}, not the {self.role} table of {self.topic!r}."

    def _or_adopt(self) -> str:
        if not self.is_unclaimed or self.role != "base":
            return ""
        return f", or set topics.{self.topic}.table.adopt to use this one if its schema fits"


def check_table(lake: Lake, store: ObjectStore, topic: str, identifier: Identifier, role: Role = "base") -> Check:
    """How the table of this name stands to the topic."""
    history = markers(store, topic, identifier)
    table = find_table(lake, identifier)
    return Check(topic, role, identifier, _standing(table, history, topic, role), table, history)


def _standing(table: Table | None, history: list[Marker], topic: str, role: Role) -> Standing:
    if table is None:
        return Standing.DROPPED if history else Standing.ABSENT
    properties = table.metadata.properties
    known = bool(history) and history[-1].uuid == table.metadata.table_uuid
    if TOPIC not in properties:
        return Standing.REPLACED if history and not known else Standing.FOREIGN
    if properties[TOPIC] != topic or properties.get(ROLE, "base") != role:
        return Standing.FOREIGN
    if known or not history:
        return Standing.FINE
    # Made in place of the last one by somebody who did not live to leave the marker.
    succeeds = properties.get(GENERATION) == str(len(history) + 1)
    return Standing.FINE if succeeds else Standing.REPLACED
