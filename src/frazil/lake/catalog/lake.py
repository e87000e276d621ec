"""The lake is one catalog, which is opened when it is first needed."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError
from pyiceberg.table import Table
from sqlalchemy.exc import IntegrityError, OperationalError

from frazil.config.model import Config
from frazil.errors import CatalogConnection, CatalogRefused, ConfigError, IcebergError
from frazil.lake.catalog.calls import calling, redacted
from frazil.lake.catalog.properties import resolve_properties, sql_url
from frazil.lake.catalog.rest import PatientRestCatalog
from frazil.lake.catalog.table_pointer import NoPointers, SqlitePointers, TablePointers

__all__ = ["Identifier", "Lake", "calling", "dotted"]

Identifier = tuple[str, ...]

# When two processes create the same database at once, the second one finds the tables of the first.
_OPENING_TRIES = 3
_LOCKED_SECONDS = 0.01


def dotted(identifier: Identifier) -> str:
    return ".".join(identifier)


class Lake:
    """Any thread may use it, and a process has one. Nothing is opened before it is needed."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.name, resolved = resolve_properties(config)
        self.properties: Mapping[str, Any] = resolved
        self._catalog: Catalog | None = None
        self._namespaces: set[Identifier] = set()
        self._pointers: TablePointers = self._table_pointers()
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return f"Lake({self.name!r}, {self.where})"

    @property
    def where(self) -> str:
        """Return the kind and the address of the catalog for people, without credentials."""
        return redacted(f"{self.properties['type']} catalog at {self.properties.get('uri', 'its default place')}")

    @property
    def catalog(self) -> Catalog:
        with self._lock:
            if self._catalog is None:
                with calling(f"Opening the {self.where}"):
                    self._catalog = self._open()
            return self._catalog

    def check(self) -> None:
        """Raise an error if the catalog does not answer."""
        catalog = self.catalog
        with calling(f"Asking the {self.where}"):
            catalog.list_namespaces()

    def is_empty(self) -> bool:
        """Tell whether the catalog has no namespace, and so no table."""
        catalog = self.catalog
        with calling(f"Asking the {self.where}"):
            return not catalog.list_namespaces()

    def load(self, identifier: Identifier) -> Table:
        """Return the table as it is now. Raises `TableNotFound`, `CatalogConnection` or `CatalogRefused`."""
        catalog = self.catalog
        with calling(f"Loading table {dotted(identifier)} from the {self.where}"):
            return catalog.load_table(identifier)

    def metadata_location(self, identifier: Identifier) -> str | None:
        """Return the current metadata file of a table: another one than before means that the table has changed.

        It takes microseconds. It is None where there is no such table, or where only loading the table can tell.
        """
        return self._pointers.location(identifier)

    def ensure_namespace(self, namespace: Identifier) -> None:
        """Make the namespace, and those above it, unless they exist."""
        if namespace in self._namespaces:
            return
        catalog = self.catalog
        with calling(f"Making namespace {dotted(namespace)} in the {self.where}"):
            for length in range(1, len(namespace) + 1):
                if catalog.namespace_exists(namespace[:length]):
                    continue
                try:
                    catalog.create_namespace(namespace[:length])
                except (NamespaceAlreadyExistsError, IntegrityError):
                    continue
        self._namespaces.add(namespace)

    def close(self) -> None:
        self._pointers.close()
        with self._lock:
            if self._catalog is not None:
                self._catalog.close()
                self._catalog = None

    def _table_pointers(self) -> TablePointers:
        if self.properties["type"] == "sql":
            url = sql_url(self.properties)
            if url.get_backend_name() == "sqlite" and url.database and url.database != ":memory:":
                return SqlitePointers(url.database, self.name, self.config.lake.timeout_seconds)
        return NoPointers()

    def _open(self) -> Catalog:
        properties = dict(self.properties)
        if properties["type"] == "rest":
            if "uri" not in properties:
                raise ConfigError("lake.properties.uri: a REST catalog needs its address.")
            return PatientRestCatalog(self.name, self.config.lake.timeout_seconds, **properties)
        if properties["type"] == "sql" and sql_url(properties).get_backend_name() == "sqlite":
            self._prepare_sqlite()
        for _ in range(_OPENING_TRIES - 1):
            try:
                return self._load(properties)
            except OperationalError as error:
                if "already exists" not in str(error):
                    raise
        return self._load(properties)

    def _load(self, properties: dict[str, Any]) -> Catalog:
        try:
            return load_catalog(self.name, **properties)
        except ValueError as error:
            raise ConfigError(f"lake: {redacted(str(error).splitlines()[0])}") from error

    def _prepare_sqlite(self) -> None:
        """Switch the write-ahead log on, so that readers of the catalog and a commit do not wait for each other."""
        url = sql_url(self.properties)
        if not url.database or url.database == ":memory:":
            return
        try:
            _write_ahead(url.database, self.config.lake.timeout_seconds)
        except sqlite3.OperationalError as error:
            kind = CatalogRefused if "readonly" in str(error) else CatalogConnection
            raise kind(f"{url.database} cannot be used as a catalog: {error}.") from error
        except sqlite3.DatabaseError as error:
            raise IcebergError(f"{url.database} is no catalog: {error}. Move it away, or name another.") from error


def _write_ahead(database: str, seconds: float) -> None:
    """Switch the write-ahead log of a database on.

    When several processes do so at once, SQLite does not let all wait for their turn. It tells one at once that the
    database is locked, since two that wait for each other would wait for ever.
    """
    deadline = time.monotonic() + seconds
    with closing(sqlite3.connect(database, timeout=seconds)) as connection:
        while True:
            try:
                connection.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                    raise
            time.sleep(_LOCKED_SECONDS)
