"""What Frazil uses of PyIceberg beyond its public names, all of it in one place.

None of this is promised to stay as it is, so `pyproject.toml` bounds the version of PyIceberg. Whoever raises that
bound looks through this module; no other module of Frazil touches a private name of PyIceberg.
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
from pyiceberg.table import FileScanTask, Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import TableUpdate
from pyiceberg.table.update.snapshot import _DeleteFiles, _FastAppendFiles, _OverwriteFiles
from requests import Session

# --- snapshots: their manifests are written here, and sent to the catalog by whoever asked for them ----------------


class WrittenSnapshot(NamedTuple):
    """A snapshot whose manifests are written, and which no catalog knows of yet."""

    snapshot_id: int
    updates: tuple[TableUpdate, ...]


def write_snapshot(
    table: Table,
    added: Sequence[DataFile],
    replaced: Sequence[DataFile],
    summary: Mapping[str, str],
    name: Callable[[int], uuid.UUID],
) -> WrittenSnapshot:
    """Write the manifests of a snapshot of main that adds these files, and perhaps takes others out.

    `name` makes the name of the metadata files from the id of the snapshot.
    """
    producer = _OverwriteFiles if replaced else _FastAppendFiles
    change = producer(
        operation=Operation.OVERWRITE if replaced else Operation.APPEND,
        transaction=_UnchangedTransaction(table),
        io=table.io,
        snapshot_properties=dict(summary),
        branch=MAIN_BRANCH,
    )
    change.commit_uuid = name(change.snapshot_id)
    for file in added:
        change.append_data_file(file)
    for file in replaced:
        change.delete_data_file(file)
    updates, _ = change._commit()
    return WrittenSnapshot(change.snapshot_id, updates)


class _UnchangedTransaction(Transaction):
    """PyIceberg's own copies all of the metadata whenever it is looked at, a dozen times for a commit.

    With a hundred snapshots that is most of a commit's work. Nothing is changed in this one.
    """

    @property
    def table_metadata(self) -> TableMetadata:
        return self._table.metadata


def write_empty_snapshot(transaction: Transaction, summary: Mapping[str, str]) -> tuple[TableUpdate, ...]:
    """Write the manifest list of a snapshot that changes no row, and return the updates that make it current."""
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
    """Write the manifests of a snapshot without these files, and return the updates that make it current.

    The condition `manifests` finds the manifests that the files are in; it does not choose the files.
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
    """Add updates to a transaction, so that whatever is added later builds on them."""
    transaction._stage(updates)


def delete_old_metadata(catalog: Catalog, before: Table, after: Table) -> None:
    """Delete metadata files that a commit has outdated, where the table's properties ask for it.

    PyIceberg's own transactions do the same. A catalog that is a server tidies up after itself.
    """
    if isinstance(catalog, MetastoreCatalog):
        catalog._delete_old_metadata(before.io, before.metadata, after.metadata)


# --- reading data files ------------------------------------------------------------------------------------------


def deleted_places(io: FileIO, task: FileScanTask) -> list[pa.ChunkedArray]:
    """The places of rows that were deleted from a file since it was written."""
    return [each for places in reading._read_all_delete_files(io, [task]).values() for each in places]


def scan_file(scan: reading.ArrowScan, io: FileIO, task: FileScanTask) -> Iterator[pa.RecordBatch]:
    """The rows of one file, batch by batch, without those that were deleted.

    The public methods of `ArrowScan` gather a whole file before they hand out the first batch.
    """
    deletes = reading._read_all_delete_files(io, [task])
    return scan._record_batches_from_scan_tasks_and_deletes([task], deletes)


FileFormatMaker = Callable[..., Any]
"""Makes what Arrow reads a file with, from the file's format and options."""


def wrap_file_formats(wrap: Callable[[FileFormatMaker], FileFormatMaker]) -> None:
    """Let PyIceberg read all files with what `wrap` makes of its own way to read them."""
    reading._get_file_format = wrap(reading._get_file_format)  # type: ignore[assignment]


def project_with(visitor: type[reading.ArrowProjectionVisitor]) -> None:
    """Let PyIceberg give the columns of a file their wanted shape by this visitor."""
    reading.ArrowProjectionVisitor = visitor  # type: ignore[misc]


# --- catalogs ----------------------------------------------------------------------------------------------------


class RestCatalogWithSession(RestCatalog):
    """PyIceberg's REST catalog, but a subclass may prepare the HTTP session before the first request."""

    def prepare_session(self, session: Session) -> None:
        """Change the session that PyIceberg has made."""

    def _create_session(self) -> Session:
        session: Session = super()._create_session()
        self.prepare_session(session)
        return session
