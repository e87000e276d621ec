"""Asks a catalog whether a table has changed, without loading it where the catalog allows it."""

from __future__ import annotations

import os
import sqlite3
import threading
from contextlib import suppress
from typing import Protocol

from frazil.lake.catalog.calls import calling

Identifier = tuple[str, ...]

_STATEMENT = (
    "SELECT metadata_location FROM iceberg_tables WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?"
)


class TablePointers(Protocol):
    def location(self, identifier: Identifier) -> str | None:
        """Returns the current metadata file of a table, or None where only loading the table can tell."""

    def close(self) -> None: ...


class NoPointers:
    """Is for catalogs that have no cheaper answer than the table itself."""

    def location(self, identifier: Identifier) -> str | None:
        return None

    def close(self) -> None:
        """Does nothing: there is nothing open."""


class SqlitePointers:
    """Asks a catalog in an SQLite file by one statement on an open connection. Thread-safe.

    A file that was replaced by another is opened anew.
    """

    def __init__(self, path: str, catalog: str, timeout_seconds: float) -> None:
        self._path = path
        self._catalog = catalog
        self._timeout = timeout_seconds
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    def location(self, identifier: Identifier) -> str | None:
        namespace = ".".join(identifier[:-1])
        with self._lock, calling(f"Asking the catalog for table {namespace}.{identifier[-1]}"):
            connection = self._open()
            if connection is None:
                return None
            try:
                wanted = (self._catalog, namespace, identifier[-1])
                row = connection.execute(_STATEMENT, wanted).fetchone()
            except sqlite3.Error:
                # Loading the table tells what is wrong, in the words of the catalog.
                self._close()
                return None
        return None if row is None else row[0]

    def _open(self) -> sqlite3.Connection | None:
        try:
            found = os.stat(self._path)
        except OSError:
            self._close()
            return None
        file = (found.st_dev, found.st_ino)
        if file != self._file:
            self._close()
            self._connection = sqlite3.connect(
                self._path, timeout=self._timeout, check_same_thread=False, isolation_level=None
            )
            self._file = file
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            with suppress(sqlite3.Error):
                self._connection.close()
        self._connection = self._file = None

    def close(self) -> None:
        with self._lock:
            self._close()
