"""A table's metadata on its way to tasks: what is needed to read or write files, without the history."""

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
    """A long history would travel with every task."""
    return metadata.model_copy(update=_NOTHING)
