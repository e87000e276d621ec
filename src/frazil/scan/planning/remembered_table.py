"""Remembers the base table of a topic and its files, and finds out cheaply whether there is a newer snapshot."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.table import Table

from frazil.errors import IcebergError
from frazil.lake.catalog.calls import calling
from frazil.lake.commit.offsets import current_snapshot, name_of
from frazil.scan.planning.file_index import FileIndex, ManifestFiles

_READERS = 4
"""So many manifests are fetched at a time. Fetching one from an object store takes longer than reading it."""


@dataclass(frozen=True)
class TableFiles:
    """Has the files of one snapshot."""

    index: FileIndex
    deletes: Mapping[str, tuple[DataFile, ...]]
    """The files that delete rows of a data file by their positions, by the path of the data file."""


class RememberedTable:
    """Belongs to one thread at a time.

    `load` returns the table as the catalog has it, checked, or None if there is none yet. `location` returns its
    current metadata file, or None if only loading the table can tell; then the last answer is accepted for
    `age_seconds`.
    """

    def __init__(
        self,
        load: Callable[[], Table | None],
        location: Callable[[], str | None],
        age_seconds: float = 0.0,
    ) -> None:
        self._load = load
        self._location = location
        self._age_seconds = age_seconds
        self._table: Table | None = None
        self._loaded = float("-inf")
        self._manifests: dict[str, ManifestFiles] = {}
        self._files: TableFiles | None = None
        self._files_of: tuple[object, ...] = ()

    def table(self, *, newest: bool = False) -> Table | None:
        """Returns the table as it is now, or None if there is none yet. `newest` accepts no older answer."""
        if self._table is not None:
            location = self._location()
            if location is not None and location == self._table.metadata_location:
                return self._table
            if location is None and not newest and time.monotonic() - self._loaded < self._age_seconds:
                return self._table
        before = time.monotonic()
        self._table = self._load()
        self._loaded = before
        return self._table

    def files(self, table: Table) -> TableFiles:
        """Returns the files of the current snapshot of a table. Only manifests that are new are read."""
        snapshot = current_snapshot(table)
        key = (table.metadata.table_uuid, snapshot.snapshot_id, snapshot.manifest_list)
        if self._files is None or self._files_of != key:
            with calling(f"Planning a read of table {name_of(table)}"):
                self._files = self._read(table)
            self._files_of = key
        return self._files

    @property
    def nbytes(self) -> int:
        return sum(files.nbytes for files in self._manifests.values())

    def _read(self, table: Table) -> TableFiles:
        found = current_snapshot(table).manifests(table.io)
        data = [manifest for manifest in found if manifest.content == ManifestContent.DATA]
        missing = [manifest for manifest in data if manifest.manifest_path not in self._manifests]
        read = dict(self._manifests)
        read |= zip((each.manifest_path for each in missing), _fetched(missing, table), strict=True)
        self._manifests = {each.manifest_path: read[each.manifest_path] for each in data}
        deletes = _deletes(table) if len(data) < len(found) else {}
        return TableFiles(FileIndex(tuple(self._manifests.values())), deletes)


def _fetched(manifests: list[ManifestFile], table: Table) -> list[ManifestFiles]:
    if len(manifests) < 2:
        return [ManifestFiles.read(manifest, table.io) for manifest in manifests]
    with ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(lambda manifest: ManifestFiles.read(manifest, table.io), manifests))


def _deletes(table: Table) -> dict[str, tuple[DataFile, ...]]:
    try:
        tasks = table.scan(snapshot_id=current_snapshot(table).snapshot_id).plan_files()
        return {
            task.file.file_path: tuple(sorted(task.delete_files, key=lambda each: each.file_path))
            for task in tasks
            if task.delete_files
        }
    except ValueError as error:
        # PyIceberg raises this for what it cannot read, such as equality deletes.
        raise IcebergError(f"Table {name_of(table)} cannot be read: {error}.") from error
