"""Commits updates of a table's metadata, if main has not moved since they were planned."""

from __future__ import annotations

from collections.abc import Sequence

from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, TableRequirement, TableUpdate

from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.commit import send
from frazil.lake.commit.offsets import current_snapshot
from frazil.lake.commit.proposals import CommitRequest, Proposal


def commit_updates(
    lake: Lake, table: Table, updates: Sequence[TableUpdate], requirements: Sequence[TableRequirement] = ()
) -> Table:
    """Commits updates and returns the table. Raises `CasConflict` if main has moved since the table was loaded."""
    current = current_snapshot(table).snapshot_id
    asserted = (
        AssertTableUUID(uuid=table.metadata.table_uuid),
        AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=current),
        *requirements,
    )
    request = CommitRequest(current, current, table.metadata.next_sequence_number())
    return send(lake, table, Proposal(request, asserted, tuple(updates)))


def collects_garbage(table: Table) -> bool:
    """Returns whether Frazil may delete files of the table. Some catalogs do that themselves and forbid it."""
    return table.metadata.properties.get("gc.enabled", "true").lower() != "false"


CATALOG_COLLECTS_GARBAGE = "the catalog does its own garbage collection (gc.enabled=false)"
