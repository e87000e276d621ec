"""The schemas of topics in the object store.

Each version of a schema is an object of its own, created once and never changed, so that two writers who widen
a topic at the same moment agree on the order.
"""

from __future__ import annotations

import json
import threading

import pyarrow as pa

from frazil.config.sections.log import MOST_COLUMNS
from frazil.errors import LogCorrupted, ObjectExists, TopicNotFound
from frazil.log import layout
from frazil.log.schema.columns import check_columns
from frazil.log.schema.schema import SchemaVersion, evolve, from_text, plain, to_text
from frazil.log.topics.generations import hidden
from frazil.store import ObjectStore


class TopicSchemas:
    """All versions of one topic's schema. Thread-safe."""

    def __init__(self, store: ObjectStore, topic: str, most_columns: int = MOST_COLUMNS) -> None:
        self._store = store
        self._topic = layout.check_topic(topic)
        self._most_columns = most_columns
        self._versions: dict[int, pa.Schema] = {}
        self._lock = threading.Lock()

    def latest(self) -> SchemaVersion | None:
        """Return the newest version in the store; None when the topic does not exist."""
        with self._lock:
            self._refresh()
            return self._newest()

    def known(self) -> SchemaVersion:
        """Return the newest version without another request to the store."""
        with self._lock:
            newest = self._newest()
        if newest is None:
            newest = self.latest()
        if newest is None:
            raise TopicNotFound(f"Topic {self._topic!r} does not exist.")
        return newest

    def get(self, version: int) -> pa.Schema:
        with self._lock:
            if version not in self._versions:
                self._refresh()
            if version not in self._versions:
                raise LogCorrupted(f"Version {version} of the schema of {self._topic!r} is not in {self._store.url}.")
            return self._versions[version]

    def admit(self, wanted: pa.Schema) -> SchemaVersion:
        """Return the version that holds records of this schema; create topic or version as needed.

        Raises `SchemaMismatch` for columns that no table can have, and for more than a topic may have.
        """
        wanted = plain(wanted)
        with self._lock:
            if not self._versions:
                self._refresh()
            while True:
                newest = self._newest()
                schema = evolve(newest.schema, wanted, self._topic) if newest else wanted
                if newest and schema is newest.schema:
                    return newest
                check_columns(schema, self._most_columns, newest.schema if newest else None)
                version = newest.version + 1 if newest else 1
                try:
                    self._store.put_new(layout.schema_key(self._topic, version), _encode(version, schema))
                    self._versions[version] = schema
                except ObjectExists:
                    self._refresh()

    def _newest(self) -> SchemaVersion | None:
        if not self._versions:
            return None
        version = max(self._versions)
        return SchemaVersion(version, self._versions[version])

    def _refresh(self) -> None:
        known = max(self._versions, default=0)
        after = layout.schema_key(self._topic, known) if known else None
        for info in self._store.list(layout.schema_prefix(self._topic), after):
            try:
                data = json.loads(bytes(self._store.get(info.key)))
                self._versions[data["version"]] = from_text(data["schema"])
            except (ValueError, KeyError, TypeError, pa.ArrowException) as error:
                raise LogCorrupted(f"{info.key} in {self._store.url} is no schema: {error}.") from error


def _encode(version: int, schema: pa.Schema) -> bytes:
    columns = {field.name: str(field.type) + ("" if field.nullable else " not null") for field in schema}
    return json.dumps({"version": version, "columns": columns, "schema": to_text(schema)}, indent=1).encode()


def list_topics(store: ObjectStore) -> list[str]:
    """List the topics that were not deleted."""
    there = {folder.rstrip("/").rpartition("/")[2] for folder in store.list_folders(layout.QUEUE)}
    return sorted(there - hidden(store))


def list_partitions(store: ObjectStore, topic: str) -> list[int]:
    folders = store.list_folders(layout.topic_prefix(topic))
    return sorted(p for p in map(layout.parse_partition, folders) if p is not None)
