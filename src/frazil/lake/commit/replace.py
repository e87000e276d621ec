"""Commits files that have the rows of other files, and takes the place of those, in one atomic update of the table.

The mover commits every few seconds, and to write large files takes minutes. So the table has moved when the files are
done, and the change is built on the table as it is then. That is right as long as every file that was read is still
in the table, no other rows of it were deleted meanwhile, and schema and partition spec are the same. Otherwise the
new files are of no use, and the change is discarded.

The snapshot says at which offsets the rows end, as those of the mover do: they are the offsets of the snapshot it was
built on, and it replaces that one only. So a rollback is found also where the catalog knows only the newest snapshot.
It moves no offset. Retention writes files without old rows in the same way, and says from which offset on the table
is complete.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyiceberg.manifest import DataFile, ManifestContent, ManifestFile
from pyiceberg.table import Table

from frazil.backoff import Backoff
from frazil.errors import IcebergError
from frazil.lake.catalog.calls import calling
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.attempts import attempt_time_ms
from frazil.lake.commit.commit import commit_change
from frazil.lake.commit.complete_offsets import complete_from_properties
from frazil.lake.commit.offsets import (
    ATTEMPT,
    OFFSETS,
    TableState,
    check_not_rolled_back,
    current_snapshot,
    name_of,
    offsets_to_json,
)
from frazil.lake.commit.outcomes import LONGEST_MS, Committed, find_attempt
from frazil.lake.commit.proposals import CommitRequest, Proposal, propose

TRIES = Backoff(base_seconds=0.05, longest_seconds=1.0, max_attempts=40)
"""A mover that commits all the time gets in between often, and each of its commits leaves room for this one."""

Deletes = Mapping[str, frozenset[str]]
"""The paths of the delete files that apply to each data file, by its path. Files without any are left out."""


@dataclass(frozen=True)
class Replacement:
    """Files with the rows of other files, and everything that must be true when they take their place."""

    id: str
    """The id of the attempt: its files are in the folder of that name."""
    inputs: tuple[DataFile, ...]
    outputs: tuple[DataFile, ...]
    deletes: Deletes
    """The delete files that were applied when the inputs were read."""
    table_uuid: uuid.UUID
    schema_id: int
    spec_id: int
    """The table, schema and partition spec (above) are those that the outputs were written for."""
    lost: Mapping[int, int] | None = None
    """The highest offset, by partition, of rows that the outputs lack on purpose. It is None if they lack none."""

    def __post_init__(self) -> None:
        attempt_time_ms(self.id)
        if not self.inputs:
            raise IcebergError(f"attempt {self.id} replaces no file")


@dataclass(frozen=True)
class Discarded:
    """The files cannot take the place of the others any more."""

    table: Table
    reason: str


def commit_replacement(
    lake: Lake,
    table: Table,
    replacement: Replacement,
    *,
    on_request: Callable[[CommitRequest], None] = lambda _: None,
    clock: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    pause: Callable[[float], object] = time.sleep,
    tries: Backoff = TRIES,
    rng: random.Random | None = None,
) -> Committed | Discarded:
    """Replaces the files, if the table still has them as they were read.

    `on_request` is called with each new request before it is sent. If it was never called, nobody can ever commit the
    outputs, and they may be deleted. Otherwise they are left to the removal of orphans, whatever is returned.
    """
    change = _Replace(replacement, clock)
    return commit_change(lake, table, change, on_request=on_request, pause=pause, tries=tries, rng=rng)


def deletes_of(table: Table, paths: frozenset[str]) -> Deletes:
    """Returns the delete files that apply to these data files in the current snapshot.

    Raises `IcebergError` if rows of the table are deleted by their values, which cannot be read here.
    """
    with calling(f"Planning a read of table {name_of(table)}"):
        if not any(_deletes_rows(each) for each in current_snapshot(table).manifests(table.io)):
            return {}
        try:
            tasks = table.scan(snapshot_id=current_snapshot(table).snapshot_id).plan_files()
        except ValueError as error:
            # PyIceberg raises this for what it cannot read, such as equality deletes.
            raise IcebergError(f"Table {name_of(table)} cannot be read: {error}.") from error
        return {
            task.file.file_path: frozenset(each.file_path for each in task.delete_files)
            for task in tasks
            if task.delete_files and task.file.file_path in paths
        }


def _deletes_rows(manifest: ManifestFile) -> bool:
    return manifest.content == ManifestContent.DELETES and (
        manifest.has_added_files() or manifest.has_existing_files()
    )


@dataclass(frozen=True)
class _Replace:
    """The change of `commit_replacement`."""

    replacement: Replacement
    clock: Callable[[], int]

    @property
    def id(self) -> str:
        return self.replacement.id

    def judge(self, table: Table, since: int) -> Committed | Discarded | None:
        mine, state = self.replacement, TableState.of(table)
        if state.uuid != mine.table_uuid:
            return Discarded(table, "another table stands where it was")
        if since:
            outputs = {file.file_path for file in mine.outputs}
            found = find_attempt(table, mine.id, outputs, since)
            if found is not None:
                return Committed(table, found, found_done_already=True)
        check_not_rolled_back(table)
        if (state.schema_id, state.spec_id) != (mine.schema_id, mine.spec_id):
            return Discarded(table, "the schema or the partition spec of the table has changed")
        if self.clock() - attempt_time_ms(mine.id) > LONGEST_MS:
            return Discarded(table, "it is older than 12 hours, orphan removal may soon take its files")
        inputs = frozenset(file.file_path for file in mine.inputs)
        if gone := inputs - _live(table):
            return Discarded(table, f"{len(gone)} of {len(inputs)} files that it replaces have left the table")
        try:
            deletes = deletes_of(table, inputs)
        except IcebergError as error:
            return Discarded(table, str(error))
        if deletes != mine.deletes:
            return Discarded(table, "rows of the files that it replaces were deleted meanwhile")
        return None

    def propose(self, table: Table) -> Proposal:
        mine = self.replacement
        offsets = offsets_to_json(TableState.of(table).offsets)
        summary = {ATTEMPT: mine.id, OFFSETS: offsets}
        properties = complete_from_properties(table, mine.lost or {})
        return propose(table, mine.outputs, summary, properties, mine.inputs, same_rows=mine.lost is None)


def _live(table: Table) -> set[str]:
    with calling(f"Reading manifests of table {name_of(table)}"):
        return {
            entry.data_file.file_path
            for manifest in current_snapshot(table).manifests(table.io)
            if manifest.content == ManifestContent.DATA
            for entry in manifest.fetch_manifest_entry(table.io)
        }
