"""Expiry: removes old snapshots, and deletes the files that only they needed.

Every commit writes all snapshots of a table again, so a table with a commit every few seconds must limit their number
and not only their age. These snapshots are kept: the newest, those that a branch or tag names, and those from the
newest of main back to the one with Frazil's offsets, which shows whether somebody rolled the table back.
"""

from __future__ import annotations

from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.update import RemoveSnapshotsUpdate

from frazil.config.sections.maintenance import ExpiryConfig
from frazil.errors import CasConflict
from frazil.failpoints import failpoint
from frazil.lake.commit.offsets import OFFSETS, ancestors, summary_of
from frazil.maintain.context import MaintenanceContext
from frazil.maintain.files import TableFiles
from frazil.maintain.maintained_tables import MaintainedTable
from frazil.maintain.manifest_reader import ManifestReader
from frazil.maintain.metadata_updates import CATALOG_COLLECTS_GARBAGE, collects_garbage, commit_updates
from frazil.maintain.pending_deletions import delete_due, needed_only_by, write_note
from frazil.maintain.report import Amounts, NotOurs, OperationResult

_HOUR_MS = 3_600_000
_TRIES = 3
_AT_A_TIME = 1000
"""This is how many snapshots one commit removes. The next run removes more."""


def expired(table: Table, config: ExpiryConfig, now_ms: int) -> list[int]:
    """Returns the ids of the snapshots to remove, oldest first."""
    line = list(ancestors(table))
    with_offsets = next((number for number, each in enumerate(line) if OFFSETS in summary_of(each)), 0)
    first = max(config.keep_last, with_offsets + 1)
    limit_ms = now_ms - int(config.max_age_hours * _HOUR_MS)
    chosen = {
        each.snapshot_id
        for number, each in enumerate(line)
        if number >= first and (each.timestamp_ms < limit_ms or number >= config.max_snapshots)
    }
    on_main = {each.snapshot_id for each in line}
    chosen |= {
        each.snapshot_id
        for each in table.metadata.snapshots
        if each.snapshot_id not in on_main and each.timestamp_ms < limit_ms
    }
    chosen -= _referred(table, on_main)
    oldest_first = sorted(table.metadata.snapshots, key=lambda each: each.timestamp_ms)
    return [each.snapshot_id for each in oldest_first if each.snapshot_id in chosen][:_AT_A_TIME]


def _referred(table: Table, on_main: set[int]) -> set[int]:
    """Returns the snapshots that branches and tags name, and those that are only on other branches than main."""
    parents = {each.snapshot_id: each.parent_snapshot_id for each in table.metadata.snapshots}
    found = set()
    for name, ref in table.metadata.refs.items():
        found.add(ref.snapshot_id)
        at: int | None = ref.snapshot_id
        while name != MAIN_BRANCH and ref.snapshot_ref_type == SnapshotRefType.BRANCH and at not in on_main:
            if at is None or at not in parents:
                break
            found.add(at)
            at = parents[at]
    return found


class Expiry:
    name = "expire"
    any_version = False

    def __init__(self, config: ExpiryConfig) -> None:
        self._config = config

    def applies(self, target: MaintainedTable) -> bool:
        return True

    def run(self, context: MaintenanceContext, table: Table, dry_run: bool) -> OperationResult:
        if not collects_garbage(table):
            raise NotOurs(CATALOG_COLLECTS_GARBAGE)
        before = Amounts(snapshots=len(table.metadata.snapshots))
        reader = ManifestReader()
        if dry_run:
            return self._plan(context, table, reader)
        after, forgot = self._forget(context, table, reader)
        failpoint("expire.forgotten")
        removed, waiting = delete_due(after, context.now_ms(), reader)
        return OperationResult(
            "done" if forgot or removed.files else "nothing",
            before,
            Amounts(snapshots=len(after.metadata.snapshots)),
            note=_waiting(waiting, context),
            removed=removed,
        )

    def _plan(self, context: MaintenanceContext, table: Table, reader: ManifestReader) -> OperationResult:
        snapshots = len(table.metadata.snapshots)
        ids = expired(table, self._config, context.now_ms())
        ripe, _ = delete_due(table, context.now_ms(), reader, dry_run=True)
        later = needed_only_by(table, ids, reader).amounts if ids else Amounts(files=0, bytes=0)
        removed = Amounts(files=(ripe.files or 0) + (later.files or 0), bytes=(ripe.bytes or 0) + (later.bytes or 0))
        return OperationResult(
            "would" if ids or ripe.files else "nothing",
            Amounts(snapshots=snapshots),
            Amounts(snapshots=snapshots - len(ids)),
            removed=removed,
            items=tuple(f"snapshot {each}" for each in ids),
        )

    def _forget(self, context: MaintenanceContext, table: Table, reader: ManifestReader) -> tuple[Table, bool]:
        """Removes expired snapshots. Returns the table, and whether there were any."""
        if not expired(table, self._config, context.now_ms()):
            return table, False
        with context.exclusive(table.name()):
            for left in reversed(range(_TRIES)):
                table = context.lake.load(table.name())
                ids = expired(table, self._config, context.now_ms())
                if not ids:
                    break
                ripe_ms = context.now_ms() + int(context.config.log.trim_grace_seconds * 1000)
                written = write_note(table, needed_only_by(table, ids, reader), ripe_ms, context.world.new_id())
                failpoint("expire.noted")
                try:
                    return commit_updates(context.lake, table, [RemoveSnapshotsUpdate(snapshot_ids=ids)]), True
                except CasConflict:
                    # The snapshots were not removed, so the note is wrong.
                    TableFiles(table).delete([written])
                    if not left:
                        raise
        return table, False


def _waiting(files: int, context: MaintenanceContext) -> str:
    if not files:
        return ""
    grace = context.config.log.trim_grace_seconds
    return f"{files:,} files that no snapshot needs wait for the grace time of {grace:g} s"
