"""The entries of the transaction log: seven kinds, each with its number and its time.

An entry is one frame whose body is JSON. Offsets are noted here for people; the tables decide about them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from frazil.framefile import frames
from frazil.lake.commit.ranges import Range


@dataclass(frozen=True)
class Entry:
    """The fields that all entries have. The numbers of one slot follow each other without a gap."""

    number: int
    time_ms: int


@dataclass(frozen=True)
class OffsetMarker(Entry):
    """Records up to an offset have been read from the log; `offset` is the next one."""

    topic: str
    partition: int
    offset: int
    record_count: int


@dataclass(frozen=True)
class FlushStart(Entry):
    """A batch begins: from here on there may be data files of this attempt."""

    topic: str
    table: str
    attempt: str
    record_count: int
    batch_size: int
    """The size of the batch in bytes."""
    ranges: tuple[Range, ...]


@dataclass(frozen=True)
class FlushEnd(Entry):
    """A batch is finished: nothing of this attempt is left to do."""

    topic: str
    table: str
    attempt: str
    snapshot_id: int | None
    files_created: int


@dataclass(frozen=True)
class CommitStart(Entry):
    """A commit request is about to be sent: from here on it may arrive, even late."""

    topic: str
    table: str
    attempt: str
    snapshot_id: int
    """The snapshot that the request creates."""
    parent_snapshot_id: int
    sequence_number: int


@dataclass(frozen=True)
class CommitEnd(Entry):
    """The outcome of a commit. A commit whose outcome is unknown has no such entry."""

    topic: str
    table: str
    attempt: str
    success: bool
    snapshot_id: int | None
    reason: str = ""
    retry: bool = False
    """The same files are going to be committed again, so the attempt stays open."""


@dataclass(frozen=True)
class MaintenanceOp(Entry):
    """An operation changed a table without adding rows."""

    op_type: str
    table: str
    details: Mapping[str, Any]
    topic: str | None = None


@dataclass(frozen=True)
class Checkpoint(Entry):
    """The state after all entries before it. It is the first entry of every file."""

    state: Mapping[str, Any]
    """The result of `State.to_json`."""
    boot: str
    """The boot id of the machine: what was not synced may be lost with a reboot."""


# The kinds differ from those of all other logs, so that a WAL file is never taken for one of these.
KINDS: dict[int, type[Entry]] = {
    32: OffsetMarker,
    33: FlushStart,
    34: FlushEnd,
    35: CommitStart,
    36: CommitEnd,
    37: MaintenanceOp,
    38: Checkpoint,
}
_NUMBERS = {kind: number for number, kind in KINDS.items()}
_SYNCED = "synced_to"


def encode(entry: Entry, synced_to: int) -> frames.Encoded:
    """`synced_to` is how far the file is known to be on disk: damage before that byte is never a torn write."""
    body = as_data(entry) | {_SYNCED: synced_to}
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False, default=str)
    return frames.encode(_NUMBERS[type(entry)], [text.encode("utf-8", "replace")], fill=b" ")


def as_data(entry: Entry) -> dict[str, Any]:
    return {each.name: getattr(entry, each.name) for each in fields(entry)}


def decode(kind: int, body: memoryview) -> tuple[Entry, int]:
    """Return the entry and its `synced_to`. Raises `ValueError` when the body is not one of that kind."""
    cls = KINDS[kind]
    data = json.loads(bytes(body))
    try:
        synced_to = int(data.get(_SYNCED, 0))
        # A later version may have fields that this one does not know.
        known = {each.name: data[each.name] for each in fields(cls) if each.name in data}
        if "ranges" in known:
            known["ranges"] = tuple(Range(*each) for each in known["ranges"])
        return cls(**known), synced_to
    except (TypeError, AttributeError) as error:
        raise ValueError(f"not an entry of the kind {cls.__name__}: {error}") from error
