"""Reads the manifests of a table, and lists all files that the table refers to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

from pyiceberg.manifest import DataFile, DataFileContent, ManifestContent, ManifestEntry, ManifestFile
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Snapshot

from frazil.lake.catalog.calls import calling
from frazil.lake.commit.offsets import current_snapshot, name_of
from frazil.maintain.files import THREADS, normalized_path
from frazil.maintain.report import Amounts


class ManifestReader:
    """Reads manifests and caches them, because they never change. Each run of an operation has its own reader."""

    def __init__(self) -> None:
        self._entries: dict[str, list[ManifestEntry]] = {}
        self._lists: dict[str, list[ManifestFile]] = {}

    def manifests(self, table: Table, snapshots: Iterable[Snapshot]) -> dict[str, ManifestFile]:
        """Returns all manifests of these snapshots, by path."""
        chosen = list(snapshots)
        with calling(f"Reading snapshots of table {name_of(table)}"):
            missing = [each for each in chosen if each.manifest_list not in self._lists]
            with ThreadPoolExecutor(THREADS) as pool:
                read = list(pool.map(lambda each: each.manifests(table.io), missing))
            self._lists |= {each.manifest_list: found for each, found in zip(missing, read, strict=True)}
        return {one.manifest_path: one for each in chosen for one in self._lists[each.manifest_list]}

    def entries(self, table: Table, manifests: Iterable[ManifestFile]) -> Iterator[ManifestEntry]:
        """Yields the entries of all files that these manifests have in the table."""
        chosen = list(manifests)
        with calling(f"Reading manifests of table {name_of(table)}"):
            missing = [each for each in chosen if each.manifest_path not in self._entries]
            with ThreadPoolExecutor(THREADS) as pool:
                read = list(pool.map(lambda each: each.fetch_manifest_entry(table.io), missing))
            self._entries |= {each.manifest_path: found for each, found in zip(missing, read, strict=True)}
        for each in chosen:
            yield from self._entries[each.manifest_path]

    def data_files(self, table: Table) -> list[DataFile]:
        """Returns the data files of the current snapshot."""
        manifests = self.manifests(table, [current_snapshot(table)]).values()
        data = (each for each in manifests if each.content == ManifestContent.DATA)
        return [entry.data_file for entry in self.entries(table, data)]

    def referenced_files(self, table: Table) -> set[str]:
        """Returns the normalized paths of all files that any snapshot needs, and of the table's metadata."""
        manifests = self.manifests(table, table.metadata.snapshots)
        found = {normalized_path(entry.data_file.file_path) for entry in self.entries(table, manifests.values())}
        found |= {normalized_path(path) for path in manifests}
        return found | metadata_files(table)


def metadata_files(table: Table) -> set[str]:
    """Returns the files that the metadata itself names: metadata files, manifest lists and statistics."""
    metadata = table.metadata
    paths = [table.metadata_location]
    paths += [each.metadata_file for each in metadata.metadata_log]
    paths += [each.manifest_list for each in metadata.snapshots]
    paths += [each.statistics_path for each in (*metadata.statistics, *metadata.partition_statistics)]
    return {normalized_path(path) for path in paths}


def count_files(files: Iterable[DataFile]) -> Amounts:
    data = [file for file in files if file.content == DataFileContent.DATA]
    return Amounts(
        files=len(data),
        bytes=sum(file.file_size_in_bytes for file in data),
        rows=sum(file.record_count for file in data),
    )
