"""The table history: which tables a topic has had, stored beside its log.

A catalog cannot tell a table that never existed from one that was dropped, nor the table that Frazil created from
another of the same name. The history can: each table that is created adds an entry, which is never changed. When a
person decides that a table is given up, an entry without a UUID is added, so that another table may be created.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from uuid import UUID

from pyiceberg.table import Table

from frazil.errors import LogCorrupted, ObjectExists
from frazil.lake.catalog.lake import Identifier
from frazil.log import layout
from frazil.store import ObjectStore


@dataclass(frozen=True)
class HistoryEntry:
    number: int
    identifier: Identifier
    uuid: UUID | None
    """The UUID of the table. It is None in an entry that retires the table before it."""
    role: str


def table_history(store: ObjectStore, topic: str, identifier: Identifier | None = None) -> list[HistoryEntry]:
    """Returns the history of a topic, or of one of its tables, oldest first."""
    found = [_read(store, info.key) for info in store.list(_prefix(topic))]
    return [entry for entry in found if identifier is None or entry.identifier == identifier]


def newest_entry(store: ObjectStore, topic: str, identifier: Identifier) -> HistoryEntry | None:
    return next(reversed(table_history(store, topic, identifier)), None)


def add_table(store: ObjectStore, topic: str, identifier: Identifier, table: Table, role: str) -> None:
    """Adds an entry for this table, unless the newest entry is for this table already."""
    uuid = table.metadata.table_uuid
    while True:
        known = table_history(store, topic)
        mine = [entry for entry in known if entry.identifier == identifier]
        if mine and mine[-1].uuid == uuid:
            return
        if _put(store, topic, HistoryEntry(_next(known), identifier, uuid, role)):
            return


def add_retirement(store: ObjectStore, topic: str, retired: HistoryEntry) -> None:
    """Adds an entry that retires this table, unless it is not the newest of its name any more."""
    while True:
        known = table_history(store, topic)
        mine = [entry for entry in known if entry.identifier == retired.identifier]
        if mine[-1] != retired or retired.uuid is None:
            return
        if _put(store, topic, HistoryEntry(_next(known), retired.identifier, None, retired.role)):
            return


def _next(known: list[HistoryEntry]) -> int:
    return known[-1].number + 1 if known else 1


def _put(store: ObjectStore, topic: str, entry: HistoryEntry) -> bool:
    """Stores an entry. Returns False if somebody added another entry, perhaps the same one, at the same moment."""
    uuid = None if entry.uuid is None else str(entry.uuid)
    content = {"identifier": list(entry.identifier), "uuid": uuid, "role": entry.role}
    try:
        store.put_new(f"{_prefix(topic)}{entry.number:010d}.json", json.dumps(content).encode())
    except ObjectExists:
        return False
    return True


def _prefix(topic: str) -> str:
    return f"{layout.topic_prefix(topic)}tables/"


def _read(store: ObjectStore, key: str) -> HistoryEntry:
    try:
        content = json.loads(bytes(store.get(key)))
        number = int(key.rpartition("/")[2].removesuffix(".json"))
        uuid = None if content["uuid"] is None else UUID(content["uuid"])
        return HistoryEntry(number, tuple(content["identifier"]), uuid, content["role"])
    except (ValueError, KeyError, TypeError) as error:
        raise LogCorrupted(f"{key} in {store.url} does not say which table it stands for: {error}.") from error
