"""Removes the snapshots from table metadata before it is sent to tasks, which only read or write files."""

from __future__ import annotations

from typing import Any

from pyiceberg.table.metadata import TableMetadata

_NOTHING: dict[str, Any] = {
    "snapshots": [],
    "snapshot_log": [],
    "metadata_log": [],
    "refs": {},
    "current_snapshot_id": None,
}


def without_snapshots(metadata: TableMetadata) -> TableMetadata:
    """Returns the metadata without snapshots and logs, because a long history would be sent with every task."""
    return metadata.model_copy(update=_NOTHING)
