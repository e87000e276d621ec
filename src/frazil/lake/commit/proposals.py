"""Proposals: one update of a table, ready to be sent to its catalog.

A proposal adds one snapshot to main and sets properties, in one atomic update. It holds only while everything it was
built on does: the table itself, the snapshot of main, the current schema and the default partition spec are all
asserted, so once main has moved on a proposal can never be accepted any more, however late it arrives.

`Transaction.commit_transaction()` is not used: it loads the table again by itself and sends the change once more on
whatever it finds, past every check made before.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyiceberg.manifest import DataFile
from pyiceberg.table import Table, Transaction
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import (
    AssertCurrentSchemaId,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetPropertiesUpdate,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.table.update.snapshot import _FastAppendFiles, _OverwriteFiles

from frazil.lake.catalog.calls import calling
from frazil.lake.commit.offsets import current_snapshot, name_of

_NAMES = uuid.UUID("6f2a3c52-6d5e-4a52-9b0b-6f72617a696c")
"""Names of metadata files are made from this and the snapshot's id, so they can be told without listing a folder."""


class CommitRequest(NamedTuple):
    """What must be remembered of a proposal before it is sent."""

    snapshot_id: int
    parent_id: int
    sequence_number: int
    """Of the snapshot; manifests of the table with lower ones cannot refer to its files."""


@dataclass(frozen=True)
class Proposal:
    request: CommitRequest
    requirements: tuple[TableRequirement, ...]
    updates: tuple[TableUpdate, ...]

    def fits(self, table: Table) -> bool:
        """Whether the table still is what this was built on, so that the same proposal may be sent again."""
        return self.request[1:] == (current_snapshot(table).snapshot_id, table.metadata.next_sequence_number()) and (
            self.requirements == _requirements(table)
        )


def propose(
    table: Table,
    files: Sequence[DataFile],
    summary: Mapping[str, str],
    properties: Mapping[str, str],
    replaced: Sequence[DataFile] = (),
) -> Proposal:
    """Write the manifests of a snapshot that appends these files, perhaps none, to the table as it was loaded.

    Or puts them in the place of others, if they have the rows of those.
    """
    parent = current_snapshot(table)
    producer = _OverwriteFiles if replaced else _FastAppendFiles
    with calling(f"Writing manifests of table {name_of(table)}"):
        change = producer(
            operation=Operation.OVERWRITE if replaced else Operation.APPEND,
            transaction=_ReadOnlyTransaction(table),
            io=table.io,
            snapshot_properties=dict(summary),
            branch=MAIN_BRANCH,
        )
        change.commit_uuid = _name(change.snapshot_id)
        for file in files:
            change.append_data_file(file)
        for file in replaced:
            change.delete_data_file(file)
        updates, _ = change._commit()
    request = CommitRequest(change.snapshot_id, parent.snapshot_id, table.metadata.next_sequence_number())
    return Proposal(request, _requirements(table), (*updates, SetPropertiesUpdate(updates=dict(properties))))


class _ReadOnlyTransaction(Transaction):
    """PyIceberg's own copies all of the metadata whenever it is looked at, a dozen times for a commit.

    With a hundred snapshots that is most of a commit's work. Nothing is changed in this one.
    """

    @property
    def table_metadata(self) -> TableMetadata:
        return self._table.metadata


def metadata_paths(table: Table, snapshot_id: int) -> tuple[str, str]:
    """The manifest list, and the manifest of its own, that were written for a proposal."""
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
