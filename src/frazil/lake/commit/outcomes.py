"""Decides by the table what has become of an attempt.

It is committed, superseded by another, committed in part by another, to be written again, or still open.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from pyiceberg.table import Table

from frazil.errors import CasConflict, TableReplaced
from frazil.lake.catalog.calls import calling
from frazil.lake.commit.attempts import Attempt, attempt_time_ms
from frazil.lake.commit.offsets import (
    ATTEMPT,
    TableState,
    ancestors,
    check_not_rolled_back,
    current_snapshot,
    name_of,
    summary_of,
)
from frazil.lake.commit.ranges import Range

LONGEST_MS = 12 * 60 * 60 * 1000
"""An attempt older than this is written again. Orphan removal spares only files younger than a day, and takes files
of an attempt that was not committed yet for orphans."""


@dataclass(frozen=True)
class Committed:
    """The attempt's rows are in the table, once."""

    table: Table
    snapshot_id: int
    found_done_already: bool = False
    """This says whether an earlier request committed it."""


@dataclass(frozen=True)
class Superseded:
    """The table is at or past the end of every range, and nothing shows that this attempt moved it there.

    It may still have been this attempt, if compaction and expiry have removed the evidence. So the files stay until
    `cleanup_attempt` has better evidence.
    """

    table: Table


@dataclass(frozen=True)
class Clipped:
    """Somebody else committed a part of the ranges. The rest has to be written again, as another attempt."""

    table: Table
    ranges: tuple[Range, ...]


@dataclass(frozen=True)
class Rewrite:
    """Nothing of the attempt is in the table, and its files cannot be committed any more.

    It has to be written again, as another attempt.
    """

    table: Table
    reason: str


Outcome = Committed | Superseded | Clipped | Rewrite


def judge(table: Table, attempt: Attempt, now_ms: int, since: int = 0) -> Outcome | None:
    """Returns what has become of an attempt, or None if it can be committed to the table as it was loaded.

    `since` is the lowest sequence number that a snapshot of this attempt can have. Raises `TableRolledBack` if rows
    and offsets disagree, `TableReplaced` if this is another table, and `CasConflict` if a range begins after the
    offset that the table needs.
    """
    state = TableState.of(table)
    if state.uuid != attempt.table_uuid:
        raise TableReplaced(
            f"another table stands where {name_of(table)} was: attempt {attempt.id} was written for the table with "
            f"the uuid {attempt.table_uuid}, this one has {state.uuid}"
        )
    check_not_rolled_back(table)
    left = tuple(_remaining(state, attempt))
    if not left:
        found = find_attempt(table, attempt.id, {file.file_path for file in attempt.files}, since)
        return Superseded(table) if found is None else Committed(table, found, found_done_already=True)
    if left != attempt.ranges:
        return Clipped(table, left)
    if (state.schema_id, state.spec_id) != (attempt.schema_id, attempt.spec_id):
        return Rewrite(
            table,
            f"the table has schema {state.schema_id} and partition spec {state.spec_id}, the files were written for "
            f"schema {attempt.schema_id} and partition spec {attempt.spec_id}",
        )
    if now_ms - attempt_time_ms(attempt.id) > LONGEST_MS:
        return Rewrite(table, "it is older than 12 hours, orphan removal may soon take its files")
    return None


def find_attempt(table: Table, attempt: str, files: Collection[str], since: int = 0) -> int | None:
    """Returns the id of the snapshot on main that committed an attempt, if that can still be seen.

    The summary of the snapshot has the attempt's id, as long as the catalog keeps the snapshot. Some catalogs keep
    only the current one. Then a manifest of it refers to the files, unless compaction has replaced them.
    """
    for snapshot in ancestors(table):
        if summary_of(snapshot).get(ATTEMPT) == attempt:
            return snapshot.snapshot_id
    if not files:
        return None
    with calling(f"Reading manifests of table {name_of(table)}"):
        for manifest in current_snapshot(table).manifests(table.io):
            if (manifest.sequence_number or 0) < since and table.metadata.format_version > 1:
                continue
            for entry in manifest.fetch_manifest_entry(table.io):
                if entry.data_file.file_path in files:
                    return entry.snapshot_id or current_snapshot(table).snapshot_id
    return None


def _remaining(state: TableState, attempt: Attempt) -> list[Range]:
    left = []
    for each in attempt.ranges:
        needed = state.next_offset(each.partition)
        if needed is None:
            needed = attempt.log_starts.get(each.partition, 0)
        if needed < each.start:
            raise CasConflict(
                f"topic {state.topic}: the table needs partition {each.partition} from offset {needed} on, attempt "
                f"{attempt.id} begins at {each.start}; read the log again from the table's offset"
            )
        if needed < each.end:
            left.append(each._replace(start=needed))
    return left
