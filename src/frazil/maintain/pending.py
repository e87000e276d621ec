"""Files that wait for their deletion.

What only forgotten snapshots need may still be read by a query that began before they were forgotten. So these files
are first noted in one beside the table's metadata, and deleted when the grace time is over and no snapshot needs
them: that is asked again then, so a note that was written for a commit that failed does no harm.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass

from pyiceberg.table import Table

from frazil.errors import LogCorrupted
from frazil.lake.catalog.calls import calling
from frazil.lake.commit.offsets import named
from frazil.maintain.contents import Contents, metadata_places
from frazil.maintain.files import Found, TableFiles, place
from frazil.maintain.report import Amounts

FOLDER = "metadata/frazil-pending"
_MOST_OF_ONE_NAME = 1000
"""Names are random, so one that is taken this often is a fault of the file system."""


@dataclass(frozen=True)
class Candidates:
    """Files that snapshots about to be forgotten need, and perhaps others too."""

    sizes: dict[str, int]
    """By path; 0 where nobody knows."""
    since: int
    """Least sequence number of a data file among them: manifests below it cannot refer to any."""

    @property
    def amounts(self) -> Amounts:
        return Amounts(files=len(self.sizes), bytes=sum(self.sizes.values()))


def needed_only_by(table: Table, snapshot_ids: Iterable[int], contents: Contents) -> Candidates:
    """The files that no other snapshot needs."""
    ids = set(snapshot_ids)
    gone = [each for each in table.metadata.snapshots if each.snapshot_id in ids]
    kept = [each for each in table.metadata.snapshots if each.snapshot_id not in ids]
    kept_manifests = contents.manifests(table, kept)
    dead = [each for path, each in contents.manifests(table, gone).items() if path not in kept_manifests]
    entries = list(contents.entries(table, dead))
    sizes = {each.manifest_list: 0 for each in gone}
    sizes |= {each.manifest_path: each.manifest_length for each in dead}
    sizes |= {entry.data_file.file_path: entry.data_file.file_size_in_bytes for entry in entries}
    sizes |= {
        each.statistics_path: each.file_size_in_bytes
        for each in (*table.metadata.statistics, *table.metadata.partition_statistics)
        if each.snapshot_id in ids
    }
    candidates = Candidates(sizes, min((entry.sequence_number or 0 for entry in entries), default=-1))
    return _unneeded(table, candidates, contents, but=ids)


def note(table: Table, candidates: Candidates, ripe_ms: int, name: str) -> str:
    """Writes down that these files are to be deleted from `ripe_ms` on, and returns the path of the note.

    Two notes can have the same time and name where the clock stands still, so a name that is taken gets a number.
    """
    files = TableFiles(table)
    content = json.dumps({"ripe_ms": ripe_ms, "since": candidates.since, "sizes": candidates.sizes}).encode()
    stem = f"{files.location}/{FOLDER}/{ripe_ms:013d}-{name}"
    with calling(f"Noting which files of table {named(table)} are to be deleted"):
        for suffix in ("", *(f"-{number}" for number in range(2, _MOST_OF_ONE_NAME))):
            with suppress(FileExistsError):
                files.write(f"{stem}{suffix}.json", content)
                return f"{stem}{suffix}.json"
        raise FileExistsError(f"{stem}.json")


def sweep(table: Table, now_ms: int, contents: Contents, dry_run: bool = False) -> tuple[Amounts, int]:
    """Delete what is ripe; how much that was, and how many files wait on."""
    files = TableFiles(table)
    removed = Amounts(files=0, bytes=0)
    waiting = 0
    with calling(f"Deleting files of table {named(table)} that no snapshot needs"):
        for found in files.below(f"{files.location}/{FOLDER}"):
            ripe_ms, candidates = _read(files, found)
            if ripe_ms > now_ms:
                waiting += len(candidates.sizes)
                continue
            unneeded = _unneeded(table, candidates, contents)
            if not dry_run:
                files.delete(unneeded.sizes)
                files.delete([found.path])
            removed = Amounts(
                files=(removed.files or 0) + len(unneeded.sizes),
                bytes=(removed.bytes or 0) + sum(unneeded.sizes.values()),
            )
    return removed, waiting


def _read(files: TableFiles, found: Found) -> tuple[int, Candidates]:
    try:
        content = json.loads(files.read(found.path))
        return int(content["ripe_ms"]), Candidates(dict(content["sizes"]), int(content["since"]))
    except (ValueError, KeyError, TypeError) as error:
        raise LogCorrupted(
            f"{found.path} does not say which files are to be deleted: {error}. Delete it; orphan removal finds them."
        ) from error


def _unneeded(table: Table, candidates: Candidates, contents: Contents, but: Iterable[int] = ()) -> Candidates:
    """Those that no snapshot needs, `but` for some that are about to go."""
    ids = set(but)
    kept = [each for each in table.metadata.snapshots if each.snapshot_id not in ids]
    manifests = contents.manifests(table, kept)
    needed = {place(path) for path in manifests}
    if not ids:
        needed |= metadata_places(table)
    if candidates.since >= 0:
        old = table.metadata.format_version > 1
        recent = [each for each in manifests.values() if not old or (each.sequence_number or 0) >= candidates.since]
        needed |= {place(entry.data_file.file_path) for entry in contents.entries(table, recent)}
    sizes = {path: size for path, size in candidates.sizes.items() if place(path) not in needed}
    return Candidates(sizes, candidates.since)
