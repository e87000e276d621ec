"""Wraps the private names of PyIceberg that Frazil uses.

They may change in any version, so `pyproject.toml` bounds the version of PyIceberg. Whoever raises that bound checks
this module. No other module of Frazil uses a private name of PyIceberg.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
from pyiceberg.catalog import Catalog, MetastoreCatalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.expressions import BooleanExpression
from pyiceberg.io import FileIO
from pyiceberg.io import pyarrow as reading
from pyiceberg.manifest import DataFile
from pyiceberg.schema import Schema
from pyiceberg.table import FileScanTask, Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Summary
from pyiceberg.table.update import TableUpdate
from pyiceberg.table.update.snapshot import _DeleteFiles, _FastAppendFiles, _OverwriteFiles
from pyiceberg.typedef import EMPTY_DICT
from requests import Session

# --- snapshots: these functions write their manifests, and the callers send them to the catalog ---------------------


class WrittenSnapshot(NamedTuple):
    """A snapshot whose manifests are written, and which was not sent to the catalog yet."""

    snapshot_id: int
    updates: tuple[TableUpdate, ...]


def write_snapshot(
    table: Table,
    added: Sequence[DataFile],
    removed: Sequence[DataFile],
    same_rows: bool,
    summary: Mapping[str, str],
    name: Callable[[int], uuid.UUID],
) -> WrittenSnapshot:
    """Writes the manifests of a snapshot of main that adds these files, and perhaps removes others.

    If the added files have the same rows as those that are removed, the snapshot is a `replace`, which streams of
    other engines skip. `name` makes the name of the metadata files from the id of the snapshot.
    """
    replacing = _ReplaceFiles if same_rows else _OverwriteFiles
    producer = replacing if removed else _FastAppendFiles
    change = producer(
        operation=Operation.OVERWRITE if removed else Operation.APPEND,
        transaction=_UnchangedTransaction(table),
        io=table.io,
        snapshot_properties=dict(summary),
        branch=MAIN_BRANCH,
    )
    change.commit_uuid = name(change.snapshot_id)
    for file in added:
        change.append_data_file(file)
    for file in removed:
        change.delete_data_file(file)
    updates, _ = change._commit()
    return WrittenSnapshot(change.snapshot_id, updates)


class _ReplaceFiles(_OverwriteFiles):
    """Replaces files by others with the same rows. PyIceberg cannot sum up such snapshots, only overwrites."""

    def _summary(self, snapshot_properties: dict[str, str] = EMPTY_DICT) -> Summary:
        counted = super()._summary(snapshot_properties)
        return Summary(Operation.REPLACE, **counted.additional_properties)


class _UnchangedTransaction(Transaction):
    """A transaction that changes nothing and so need not copy the metadata.

    PyIceberg's own copies all of the metadata at every access, a dozen times in a commit. With a hundred snapshots
    that would be most of a commit's work.
    """

    @property
    def table_metadata(self) -> TableMetadata:
        return self._table.metadata


def write_empty_snapshot(transaction: Transaction, summary: Mapping[str, str]) -> tuple[TableUpdate, ...]:
    """Writes the manifest list of a snapshot that changes no row, and returns the updates that make it current."""
    append = _FastAppendFiles(
        operation=Operation.APPEND,
        transaction=transaction,
        io=transaction._table.io,
        snapshot_properties=dict(summary),
        branch=MAIN_BRANCH,
    )
    updates, _ = append._commit()
    return updates


def write_deletion(
    table: Table, manifests: BooleanExpression, files: Collection[DataFile]
) -> tuple[TableUpdate, ...]:
    """Writes the manifests of a snapshot without these files, and returns the updates that make it current.

    The condition `manifests` only finds the manifests that list the files. It does not choose the files.
    """
    deletion = _DeleteFiles(
        operation=Operation.DELETE,
        transaction=Transaction(table),
        io=table.io,
        branch=MAIN_BRANCH,
    )
    deletion.delete_by_predicate(manifests)
    deletion._planned_delete_files = set(files)
    updates, _ = deletion._commit()
    return updates


def stage(transaction: Transaction, updates: tuple[TableUpdate, ...]) -> None:
    """Adds updates to a transaction, so that later ones build on them."""
    transaction._stage(updates)


def delete_old_metadata(catalog: Catalog, before: Table, after: Table) -> None:
    """Deletes metadata files that a commit has outdated, if the table's properties ask for it.

    PyIceberg's own transactions do the same. Catalog servers do it themselves.
    """
    if isinstance(catalog, MetastoreCatalog):
        catalog._delete_old_metadata(before.io, before.metadata, after.metadata)


_MICROSECONDS = 2
"""Timestamps have microseconds up to this version of the table format."""


# --- reading data files ------------------------------------------------------------------------------------------


def deleted_places(io: FileIO, task: FileScanTask) -> list[pa.ChunkedArray]:
    """Returns the positions of rows that were deleted from a file after it was written."""
    return [each for places in reading._read_all_delete_files(io, [task]).values() for each in places]


def scan_file(scan: reading.ArrowScan, io: FileIO, task: FileScanTask) -> Iterator[pa.RecordBatch]:
    """Yields the rows of one file in batches, without those that were deleted.

    The public methods of `ArrowScan` read a whole file before they return the first batch.
    """
    deletes = reading._read_all_delete_files(io, [task])
    return scan._record_batches_from_scan_tasks_and_deletes([task], deletes)


def schema_of_file(found: pa.Schema, metadata: TableMetadata) -> Schema:
    """Returns the schema of a data file as Iceberg has it, by the ids in the file or else by the table's mapping."""
    version = metadata.format_version
    return reading.pyarrow_to_schema(
        found, metadata.name_mapping(), downcast_ns_timestamp_to_us=version <= _MICROSECONDS, format_version=version
    )


def project_batch(batch: pa.RecordBatch, wanted: Schema, found: Schema) -> pa.RecordBatch:
    """Returns rows of a file of schema `found` with the columns `wanted`, which are the same by their ids."""
    return reading._to_requested_schema(
        wanted, found, batch, downcast_ns_timestamp_to_us=True, allow_timestamp_tz_mismatch=True
    )


FileFormatMaker = Callable[..., Any]
"""A function that makes Arrow's file format object from the format and options of a file."""


def wrap_file_formats(wrap: Callable[[FileFormatMaker], FileFormatMaker]) -> None:
    """Replaces the function with which PyIceberg makes file formats by `wrap` of it."""
    reading._get_file_format = wrap(reading._get_file_format)  # type: ignore[assignment]


def project_with(visitor: type[reading.ArrowProjectionVisitor]) -> None:
    """Makes PyIceberg project the columns of files with this visitor."""
    reading.ArrowProjectionVisitor = visitor  # type: ignore[misc]


# --- catalogs ----------------------------------------------------------------------------------------------------


class RestCatalogWithSession(RestCatalog):
    """PyIceberg's REST catalog. A subclass may prepare the HTTP session before the first request."""

    def prepare_session(self, session: Session) -> None:
        """Changes the session that PyIceberg has made."""

    def _create_session(self) -> Session:
        session: Session = super()._create_session()
        self.prepare_session(session)
        return session
