"""Opens the databases in which queries run, each for one query.

To open one and to close it take ten milliseconds of processor time each, more than a small query. So a process that
answers many queries does both beside them.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import duckdb

from frazil.config.model import SqlConfig


class Databases:
    """Opens databases that have nothing in them. Any thread may use it."""

    def __init__(self, limits: SqlConfig) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._spare: duckdb.DuckDBPyConnection | None = None

    @contextmanager
    def one(self) -> Iterator[duckdb.DuckDBPyConnection]:
        connection = self._take() or self._open()
        try:
            yield connection
        finally:
            connection.close()

    def prepare(self) -> None:
        """Opens a database for the next query, in the background."""
        threading.Thread(target=self._prepare, name="frazil-sql-database", daemon=True).start()

    def _take(self) -> duckdb.DuckDBPyConnection | None:
        with self._lock:
            spare, self._spare = self._spare, None
            return spare

    def _prepare(self) -> None:
        with self._lock:
            if self._spare is None:
                self._spare = self._open()

    def _open(self) -> duckdb.DuckDBPyConnection:
        return duckdb.connect(
            ":memory:",
            config={
                "allow_community_extensions": "false",
                "allow_persistent_secrets": "false",
                "autoinstall_known_extensions": "false",
                "autoload_known_extensions": "false",
                "memory_limit": f"{self._limits.max_memory_mb}MiB",
                "python_enable_replacements": "false",
                # Nothing spills to disk: a query that needs more memory than it may have is refused.
                "temp_directory": "",
            },
        )
