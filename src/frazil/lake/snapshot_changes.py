"""Lists the data files that were added and deleted between two snapshots of a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from pyiceberg.manifest import DataFile, DataFileContent, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from frazil.errors import IcebergError
from frazil.lake.catalog.calls import calling
from frazil.lake.commit.offsets import current_snapshot, name_of


@dataclass(frozen=True)
class ScanPlan:
    """The difference in files between an older and a newer snapshot.

    A file that was added and deleted between the two is in neither list. `row_deletes` are delete files, which mark
    single rows of other files as deleted. Frazil writes none.
    """

    added: list[DataFile]
    deleted: list[DataFile]
    row_deletes: list[DataFile]


def plan_scan(table: Table, from_snapshot: int | None = None, to_snapshot: int | None = None) -> ScanPlan:
    """Returns the files added and deleted after `from_snapshot` and up to `to_snapshot`.

    The range begins with the empty table if `from_snapshot` is None, and ends with main if `to_snapshot` is None. The
    first snapshot must be an ancestor of the second, and neither may have expired.
    """
    newer = current_snapshot(table) if to_snapshot is None else _snapshot(table, to_snapshot)
    older = None if from_snapshot is None else _snapshot(table, from_snapshot)
    if older is not None:
        _check_line(table, older, newer)
    with calling(f"Reading manifests of table {name_of(table)}"):
        after = _manifests(table, newer)
        before = {} if older is None else _manifests(table, older)
        # Manifests that both snapshots refer to are the same and need not be read.
        added = {file.file_path: file for file in _files(table, after, but=before)}
        deleted = {file.file_path: file for file in _files(table, before, but=after)}
    here = [added[path] for path in added.keys() - deleted.keys()]
    gone = [deleted[path] for path in deleted.keys() - added.keys()]
    return ScanPlan(
        sorted((file for file in here if file.content == DataFileContent.DATA), key=_path),
        sorted((file for file in gone if file.content == DataFileContent.DATA), key=_path),
        sorted((file for file in here if file.content != DataFileContent.DATA), key=_path),
    )


def _path(file: DataFile) -> str:
    return file.file_path


def _snapshot(table: Table, snapshot_id: int) -> Snapshot:
    snapshot = table.metadata.snapshot_by_id(snapshot_id)
    if snapshot is None:
        raise IcebergError(f"table {name_of(table)} has no snapshot {snapshot_id}: it has expired, or never was")
    return snapshot


def _check_line(table: Table, older: Snapshot, newer: Snapshot) -> None:
    by_id = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    at: Snapshot | None = newer
    while at is not None:
        if at.snapshot_id == older.snapshot_id:
            return
        parent = at.parent_snapshot_id
        at = None if parent is None else by_id.get(parent)
    raise IcebergError(
        f"table {name_of(table)}: snapshot {older.snapshot_id} is not an ancestor of {newer.snapshot_id}, or those "
        "between them have expired"
    )


def _manifests(table: Table, snapshot: Snapshot) -> dict[str, ManifestFile]:
    return {manifest.manifest_path: manifest for manifest in snapshot.manifests(table.io)}


def _files(table: Table, manifests: dict[str, ManifestFile], but: dict[str, ManifestFile]) -> Iterator[DataFile]:
    for path, manifest in manifests.items():
        if path not in but:
            for entry in manifest.fetch_manifest_entry(table.io):
                yield entry.data_file
