"""Runs one statement in its own DuckDB, which knows only the tables of that statement."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from itertools import chain, count
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from frazil.config.model import SqlConfig
from frazil.config.sections.section import MIB
from frazil.errors import FrazilError, QueryTooLarge
from frazil.query.sql.databases import Databases
from frazil.query.sql.error_position import error_of
from frazil.query.sql.parse import Path, Statement
from frazil.query.sql.topic_dataset import QueryScans, TopicDataset
from frazil.scan.execution.pinned_scan import PinnedScan

BATCH_ROWS = 8192
_INT64 = 2**63 - 1
_TIME_WITH_ZONE = "TIME WITH TIME ZONE"


class Engine:
    """Runs one statement once. Another thread can stop it."""

    def __init__(self, limits: SqlConfig, databases: Databases) -> None:
        self._limits = limits
        self._databases = databases
        self._scans = QueryScans()
        self._connection: duckdb.DuckDBPyConnection | None = None

    def run(self, statement: Statement, tables: Mapping[Path, PinnedScan]) -> pa.Table:
        """Returns the whole result. Raises `QueryError` when the statement is wrong or needs too much."""
        try:
            with self._databases.one() as self._connection:
                for number, (path, pinned) in enumerate(tables.items()):
                    dataset = TopicDataset(pinned, self._scans)
                    _offer(self._connection, path, dataset, pinned.schema.names, f"__topic_{number}")
                _lock(self._connection)
                self._scans.check()
                return self._collect(self._connection, statement.text)
        except Exception as error:
            raise self._explained(error, statement.text) from error

    def stop(self) -> None:
        self._scans.stopped.set()
        if self._connection is not None:
            # The query may have ended at this moment.
            with suppress(duckdb.Error):
                self._connection.interrupt()

    def _collect(self, connection: duckdb.DuckDBPyConnection, text: str) -> pa.Table:
        try:
            relation = connection.sql(text)
        except duckdb.Error:
            # A cursor says where in the text the error is, and a relation does not.
            connection.execute(text)
            raise
        relation = _with_zones_as_text(relation)
        reader = relation.to_arrow_reader(BATCH_ROWS)
        batches: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in reader:
            rows += len(batch)
            size += batch.nbytes
            if rows > self._limits.max_rows:
                raise QueryTooLarge(
                    f"The result has more than {self._limits.max_rows:,} rows (sql.max_rows). Add a LIMIT, or read "
                    f"all of it with frazil.read or Spark."
                )
            if size > self._limits.max_memory_mb * MIB:
                raise self._too_much_memory()
            batches.append(batch)
        table = pa.Table.from_batches(batches, reader.schema)
        return _with_own_names(_with_whole_numbers(table, [str(kind) for kind in relation.types]))

    def _too_much_memory(self) -> QueryTooLarge:
        return QueryTooLarge(
            f"The query needs more than {self._limits.max_memory_mb:,} MiB of memory (sql.max_memory_mb). Ask for "
            f"fewer columns or rows."
        )

    def _explained(self, error: Exception, text: str) -> FrazilError:
        error = self._scans.failure or error
        if isinstance(error, FrazilError):
            return error
        if isinstance(error, duckdb.OutOfMemoryException | MemoryError) or "Out of Memory" in str(error):
            return self._too_much_memory()
        if isinstance(error, duckdb.Error | OSError | pa.ArrowException):
            # While rows are fetched, Arrow raises the error and DuckDB's message is in it.
            return error_of(str(error), text)
        return FrazilError(f"The query failed: {type(error).__name__}: {error}")


def _offer(
    connection: duckdb.DuckDBPyConnection, path: Path, dataset: TopicDataset, columns: list[str], name: str
) -> None:
    """Registers the table under the name that the statement uses for it, with its columns in this order."""
    connection.register(name, dataset)
    *above, table = map(_quoted, path)
    if len(above) > 1:
        connection.execute(f"ATTACH IF NOT EXISTS ':memory:' AS {above[0]}")
    if above:
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {'.'.join(above)}")
    view, selected = ".".join([*above, table]), ", ".join(map(_quoted, columns))
    connection.execute(f"CREATE OR REPLACE VIEW {view} AS SELECT {selected} FROM temp.{_quoted(name)}")


def _lock(connection: duckdb.DuckDBPyConnection) -> None:
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET errors_as_json = true")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _with_zones_as_text(relation: duckdb.DuckDBPyRelation) -> duckdb.DuckDBPyRelation:
    """Casts times of day with a time zone to text, because Arrow has no type for them."""
    kinds = [str(kind) for kind in relation.types]
    if _TIME_WITH_ZONE not in kinds:
        return relation
    columns = enumerate(zip(relation.columns, kinds, strict=True), start=1)
    return relation.project(
        ", ".join(
            f"{f'CAST(#{number} AS VARCHAR)' if kind == _TIME_WITH_ZONE else f'#{number}'} AS {_quoted(name)}"
            for number, (name, kind) in columns
        )
    )


def _with_whole_numbers(table: pa.Table, kinds: list[str]) -> pa.Table:
    """Casts DuckDB's 128-bit sums of integers to 64 bits where they fit, because Arrow has no 128-bit integers."""
    for index, kind in enumerate(kinds):
        if kind == "HUGEINT":
            column = table.column(index)
            largest: Any = pc.max(pc.abs(column))
            if not largest.is_valid or largest.as_py() <= _INT64:
                table = table.set_column(index, table.field(index).name, column.cast(pa.int64()))
    return table


def _with_own_names(table: pa.Table) -> pa.Table:
    """Makes column names unique, as JSON objects need them: the second `id` becomes `id_1`."""
    names: list[str] = []
    for name in table.column_names:
        candidates = chain([name], (f"{name}_{number}" for number in count(1)))
        names.append(next(each for each in candidates if each not in names))
    return table.rename_columns(names)
