"""Deletes the files of an attempt that will never be in the table.

If a delayed request commits a file after it was deleted, the table cannot be read any more. So offsets alone never
justify a deletion. The files may be deleted in two cases only:

- No request to commit them was ever sent.
- Another attempt with rows of the same range is on main. It could only be accepted while the table still needed its
  rows, so this attempt was not committed before it. And main has moved past every snapshot that this attempt's
  requests assert, so this attempt cannot be committed any more. As a last check, no manifest of the table may refer
  to the files.

In every other case the files stay, and orphan removal deletes them when they are old enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyarrow.fs import FileSelector, FileType
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.manifest import ManifestFile
from pyiceberg.table import Table

from frazil.lake.catalog.calls import calling
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.attempts import attempt_folder, attempt_time_ms
from frazil.lake.commit.offsets import ATTEMPT, ancestors, current_snapshot, name_of, ranges_of, summary_of
from frazil.lake.commit.proposals import CommitRequest, metadata_paths
from frazil.lake.commit.ranges import Range

_CLOCKS_DIFFER_MS = 60 * 60 * 1000


class OtherCommit(NamedTuple):
    """A commit of another attempt that was accepted after the requests of this attempt were sent."""

    attempt: str
    ranges: tuple[Range, ...]


@dataclass(frozen=True)
class CleanupResult:
    deleted: int
    """This is how many files were deleted."""
    kept: str | None = None
    """The reason why the files were kept, for people."""


def cleanup_attempt(
    lake: Lake,
    table: Table,
    attempt: str,
    ranges: Sequence[Range],
    requests: Sequence[CommitRequest],
    committed_elsewhere: Iterable[OtherCommit] = (),
) -> CleanupResult:
    """Deletes the files of an attempt if nobody can ever commit them.

    `requests` are all requests that `commit_add_files` announced for the attempt. `committed_elsewhere` are later
    commits that the caller knows from its own log, for catalogs that forget old snapshots.
    """
    table = lake.load(table.name())
    with calling(f"Cleaning up attempt {attempt} of table {name_of(table)}"):
        files = _Files(table)
        folder = attempt_folder(table.metadata.location, attempt)
        paths = files.below(folder)
        if requests:
            reason = _reason_to_keep(table, attempt, ranges, requests, committed_elsewhere)
            paths += [path for request in requests for path in metadata_paths(table, request.snapshot_id)]
        else:
            # No request was sent, according to the caller. It may be wrong, and to check costs little.
            reason = _referred_to(table, attempt, _recent_manifests(table, attempt_time_ms(attempt)))
        if reason is not None:
            return CleanupResult(0, reason)
        return CleanupResult(sum(files.delete(path) for path in paths))


def _reason_to_keep(
    table: Table,
    attempt: str,
    ranges: Sequence[Range],
    requests: Sequence[CommitRequest],
    committed_elsewhere: Iterable[OtherCommit],
) -> str | None:
    parents = {request.parent_id for request in requests}
    if current_snapshot(table).snapshot_id in parents:
        return "a request to commit it may still be accepted"
    newer = []
    for snapshot in ancestors(table):
        if snapshot.snapshot_id in parents:
            break
        newer.append(snapshot)
    if any(summary_of(snapshot).get(ATTEMPT) == attempt for snapshot in newer):
        return "it is in the table"
    seen = (OtherCommit(summary_of(snapshot).get(ATTEMPT, ""), ranges_of(snapshot)) for snapshot in newer)
    if not any(each.attempt != attempt and _overlap(each.ranges, ranges) for each in (*seen, *committed_elsewhere)):
        return "no other attempt is known to have committed the same rows"
    since = min(request.sequence_number for request in requests)
    return _referred_to(table, attempt, _manifests(table, since))


def _referred_to(table: Table, attempt: str, manifests: Iterable[ManifestFile]) -> str | None:
    if any(_refers(manifest, table, attempt) for manifest in manifests):
        return "a snapshot of the table refers to its files"
    return None


def _overlap(some: Iterable[Range], others: Sequence[Range]) -> bool:
    return any(
        one.partition == other.partition and one.start < other.end and other.start < one.end
        for one in some
        for other in others
    )


def _manifests(table: Table, since: int) -> Iterator[ManifestFile]:
    """Yields each manifest of any snapshot once, without those with a sequence number below `since`."""
    seen = set()
    for snapshot in table.metadata.snapshots:
        for manifest in snapshot.manifests(table.io):
            old = table.metadata.format_version > 1 and (manifest.sequence_number or 0) < since
            if not old and manifest.manifest_path not in seen:
                seen.add(manifest.manifest_path)
                yield manifest


def _recent_manifests(table: Table, since_ms: int) -> Iterator[ManifestFile]:
    """Returns the manifests that were not written by a snapshot that is known to be older than `since_ms`."""
    older = {
        each.snapshot_id for each in table.metadata.snapshots if each.timestamp_ms < since_ms - _CLOCKS_DIFFER_MS
    }
    return (manifest for manifest in _manifests(table, 0) if manifest.added_snapshot_id not in older)


def _refers(manifest: ManifestFile, table: Table, attempt: str) -> bool:
    # Paths are compared by the attempt's folder name, which is unique: one path can be written in several ways.
    return any(f"/{attempt}/" in entry.data_file.file_path for entry in manifest.fetch_manifest_entry(table.io))


class _Files:
    """Lists and deletes files with PyArrow, because not every file library that PyIceberg may use can list."""

    def __init__(self, table: Table) -> None:
        self._io = table.io if isinstance(table.io, PyArrowFileIO) else PyArrowFileIO(table.io.properties)

    def below(self, folder: str) -> list[str]:
        scheme, netloc, path = self._io.parse_location(folder, self._io.properties)
        listed = self._io.fs_by_scheme(scheme, netloc).get_file_info(
            FileSelector(path, allow_not_found=True, recursive=True)
        )
        return [folder + info.path[len(path) :] for info in listed if info.type == FileType.File]

    def delete(self, path: str) -> bool:
        try:
            self._io.delete(path)
        except FileNotFoundError:
            return False
        return True
