"""Proposals: a proposal is one update of a table, ready to be sent to its catalog.

A proposal adds one snapshot to main, and may set properties, in one atomic update. It is valid only while what it
was built on is unchanged: the table itself, the snapshot of main, the current schema and the default partition spec
are all asserted. So once main has moved, a proposal can never be accepted any more, however late it arrives.

`Transaction.commit_transaction()` is not used: it loads the table again by itself and sends the change once more on
top of whatever it finds, without the checks that were made before.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.update import (
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
)

from frazil.lake.catalog.calls import calling
from frazil.lake.commit.offsets import current_snapshot, name_of
from frazil.lake.pyiceberg_internals import write_snapshot

_NAMES = uuid.UUID("6f2a3c52-6d5e-4a52-9b0b-6f72617a696c")
"""Names of metadata files are made from this and the snapshot's id, so they are known without listing a folder."""


class CommitRequest(NamedTuple):
    """The facts of a proposal that must be stored before it is sent."""

    snapshot_id: int
    parent_id: int
    sequence_number: int
    """The sequence number of the snapshot. Manifests with lower ones cannot refer to its files."""


@dataclass(frozen=True)
class Proposal:
    request: CommitRequest
    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]

    def fits(self, table: Table) -> bool:
        """Returns whether the table is still what the proposal was built on, so that it may be sent again."""
        return self.request[1:] == (current_snapshot(table).snapshot_id, table.metadata.next_sequence_number()) and (
            self.requirements == _requirements(table)
        )


def propose(
    table: Table,
    files: Sequence[DataFile],
    summary: Mapping[str, str],
    properties: Mapping[str, str],
    removed: Sequence[DataFile] = (),
    same_rows: bool = True,
) -> Proposal:
    """Writes the manifests of a snapshot that appends these files, perhaps none, to the table as it was loaded.

    With `removed`, the snapshot also removes those files. `same_rows` says that the new files have all their rows.
    """
    parent = current_snapshot(table)
    with calling(f"Writing manifests of table {name_of(table)}"):
        written = write_snapshot(table, files, removed, same_rows, summary, _name)
    request = CommitRequest(written.snapshot_id, parent.snapshot_id, table.metadata.next_sequence_number())
    changed = [SetPropertiesUpdate(updates=dict(properties))] if properties else []
    return Proposal(request, _requirements(table), (*written.updates, *changed))


def metadata_paths(table: Table, snapshot_id: int) -> tuple[str, str]:
    """Returns the paths of the manifest list and of the new manifest that were written for a proposal."""
    places = table.location_provider()
    name = _name(snapshot_id)
    return (
        places.new_metadata_location(f"snap-{snapshot_id}-0-{name}.avro"),
        places.new_metadata_location(f"{name}-m0.avro"),
    )


def _name(snapshot_id: int) -> uuid.UUID:
    return uuid.uuid5(_NAMES, str(snapshot_id))


def _requirements(table: Table) -> tuple[TableRequirement, ...]:
    metadata = table.metadata
    return (
        AssertTableUUID(uuid=metadata.table_uuid),
        AssertRefSnapshotId(ref=MAIN_BRANCH, snapshot_id=current_snapshot(table).snapshot_id),
        AssertCurrentSchemaId(current_schema_id=metadata.current_schema_id),
        AssertDefaultSpecId(default_spec_id=metadata.default_spec_id),
    )
