"""Deletes the files of removed snapshots after a grace time.

A query that began before a snapshot was removed may still read its files. So the files are first written to a note
beside the table's metadata, and deleted when the grace time is over and no snapshot needs them. That is checked again
before the deletion, so a note for a commit that failed does no harm.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from pyiceberg.table import Table

from frazil.errors import LogCorrupted
from frazil.lake.catalog.calls import calling
from frazil.lake.commit.offsets import name_of
from frazil.maintain.files import ListedFile, TableFiles, normalized_path
from frazil.maintain.manifest_reader import ManifestReader, metadata_files
from frazil.maintain.report import Amounts

FOLDER = "metadata/frazil-pending"
_MOST_NOTES_OF_A_NAME = 1000
"""Names are random, so a name that is taken this often is a fault of the file system."""


@dataclass(frozen=True)
class DeletionCandidates:
    """Files that may be deleted, unless another snapshot needs them."""

    sizes: dict[str, int]
    """The size of each file, by path. It is 0 if unknown."""
    since: int
    """The lowest sequence number of a data file among them. Manifests below it cannot refer to any."""

    @property
    def amounts(self) -> Amounts:
        return Amounts(files=len(self.sizes), bytes=sum(self.sizes.values()))


def needed_only_by(table: Table, snapshot_ids: Iterable[int], reader: ManifestReader) -> DeletionCandidates:
    """Returns the files that these snapshots need, and no other."""
    ids = set(snapshot_ids)
    gone = [each for each in table.metadata.snapshots if each.snapshot_id in ids]
    kept = [each for each in table.metadata.snapshots if each.snapshot_id not in ids]
    kept_manifests = reader.manifests(table, kept)
    dead = [each for path, each in reader.manifests(table, gone).items() if path not in kept_manifests]
    entries = list(reader.entries(table, dead))
    sizes = {each.manifest_list: 0 for each in gone}
    sizes |= {each.manifest_path: each.manifest_length for each in dead}
    sizes |= {entry.data_file.file_path: entry.data_file.file_size_in_bytes for entry in entries}
    sizes |= {
        each.statistics_path: each.file_size_in_bytes
        for each in (*table.metadata.statistics, *table.metadata.partition_statistics)
        if each.snapshot_id in ids
    }
    candidates = DeletionCandidates(sizes, min((entry.sequence_number or 0 for entry in entries), default=-1))
    return _unneeded(table, candidates, reader, but=ids)


def write_note(table: Table, candidates: DeletionCandidates, ripe_ms: int, name: str) -> str:
    """Writes a note that these files may be deleted from then on, and returns its path.

    Two notes can have the same time and name if the clock stands still, so a name that is taken gets a number.
    """
    files = TableFiles(table)
    content = json.dumps({"ripe_ms": ripe_ms, "since": candidates.since, "sizes": candidates.sizes}).encode()
    stem = f"{files.location}/{FOLDER}/{ripe_ms:013d}-{name}"
    with calling(f"Noting which files of table {name_of(table)} are to be deleted"):
        for suffix in ("", *(f"-{number}" for number in range(2, _MOST_NOTES_OF_A_NAME))):
            with suppress(FileExistsError):
                files.write(f"{stem}{suffix}.json", content)
                return f"{stem}{suffix}.json"
        raise FileExistsError(f"{stem}.json")


def delete_due(table: Table, now_ms: int, reader: ManifestReader, dry_run: bool = False) -> tuple[Amounts, int]:
    """Deletes the files whose grace time is over. Returns how many these were, and how many files still wait."""
    files = TableFiles(table)
    removed = Amounts(files=0, bytes=0)
    waiting = 0
    with calling(f"Deleting files of table {name_of(table)} that no snapshot needs"):
        for found in files.below(f"{files.location}/{FOLDER}"):
            ripe_ms, candidates = _read(files, found)
            if ripe_ms > now_ms:
                waiting += len(candidates.sizes)
                continue
            unneeded = _unneeded(table, candidates, reader)
            if not dry_run:
                files.delete(unneeded.sizes)
                files.delete([found.path])
            removed = Amounts(
                files=(removed.files or 0) + len(unneeded.sizes),
                bytes=(removed.bytes or 0) + sum(unneeded.sizes.values()),
            )
    return removed, waiting


def _read(files: TableFiles, found: ListedFile) -> tuple[int, DeletionCandidates]:
    try:
        content = json.loads(files.read(found.path))
        return int(content["ripe_ms"]), DeletionCandidates(dict(content["sizes"]), int(content["since"]))
    except (ValueError, KeyError, TypeError) as error:
        raise LogCorrupted(
            f"{found.path} does not say which files are to be deleted: {error}. Delete it; orphan removal finds them."
        ) from error


def _unneeded(
    table: Table, candidates: DeletionCandidates, reader: ManifestReader, but: Iterable[int] = ()
) -> DeletionCandidates:
    """Returns the candidates that no snapshot needs, apart from the snapshots in `but`, which will be removed."""
    ids = set(but)
    kept = [each for each in table.metadata.snapshots if each.snapshot_id not in ids]
    manifests = reader.manifests(table, kept)
    needed = {normalized_path(path) for path in manifests}
    if not ids:
        needed |= metadata_files(table)
    if candidates.since >= 0:
        old = table.metadata.format_version > 1
        recent = [each for each in manifests.values() if not old or (each.sequence_number or 0) >= candidates.since]
        needed |= {normalized_path(entry.data_file.file_path) for entry in reader.entries(table, recent)}
    sizes = {path: size for path, size in candidates.sizes.items() if normalized_path(path) not in needed}
    return DeletionCandidates(sizes, candidates.since)
