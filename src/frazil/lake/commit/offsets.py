"""Reads the committed offsets of a table, and detects a rollback.

The committed offsets are table properties, which survive compaction and the expiry of snapshots. Each snapshot that
Frazil commits repeats all of them in its summary. A rollback to an older snapshot changes the rows and leaves the
properties, so the offsets in the summary of the then current snapshot differ from the properties.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pyiceberg.table import Table
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Snapshot

from frazil.errors import IcebergError, TableForeign, TableRolledBack
from frazil.lake.commit.ranges import Range
from frazil.lake.commit.resume_command import resume_command

TOPIC = "frazil.topic"
ROLE = "frazil.role"
OFFSET = "frazil.offset."
EPOCH = "frazil.epoch."
"""The table properties. The last two are prefixes, which are followed by the number of a partition."""

ATTEMPT = "frazil.attempt"
OFFSETS = "frazil.offsets"
RANGES = "frazil.ranges"
APPLICATION = "frazil.spark.application"
TASKS = "frazil.spark.tasks"
"""The keys in the summary of a snapshot."""


@dataclass(frozen=True)
class TableState:
    uuid: uuid.UUID
    name: str
    topic: str
    role: str
    offsets: Mapping[int, int]
    """The next offset that the table needs, for each partition that it knows."""
    epochs: Mapping[int, str]
    snapshot_id: int
    """The current snapshot of main."""
    schema_id: int
    spec_id: int

    @classmethod
    def of(cls, table: Table) -> TableState:
        properties = table.metadata.properties
        if TOPIC not in properties:
            raise TableForeign(f"table {name_of(table)} was not made by Frazil: it has no property {TOPIC}")
        return cls(
            uuid=table.metadata.table_uuid,
            name=name_of(table),
            topic=properties[TOPIC],
            role=properties.get(ROLE, "base"),
            offsets=_offsets(table),
            epochs={int(key[len(EPOCH) :]): value for key, value in properties.items() if key.startswith(EPOCH)},
            snapshot_id=current_snapshot(table).snapshot_id,
            schema_id=table.metadata.current_schema_id,
            spec_id=table.metadata.default_spec_id,
        )

    def next_offset(self, partition: int) -> int | None:
        return self.offsets.get(partition)


def topic_of(table: Table) -> str:
    """Returns the topic of the table for messages, or a placeholder if it has none."""
    return table.metadata.properties.get(TOPIC, "TOPIC")


def name_of(table: Table) -> str:
    """Returns the table's name with dots, as people write it."""
    return ".".join(table.name())


def current_snapshot(table: Table) -> Snapshot:
    """Returns the current snapshot of main, or raises if there is none.

    A table without a snapshot is never written to, because not every catalog checks that there is still none.
    """
    ref = table.metadata.refs.get(MAIN_BRANCH)
    snapshot = None if ref is None else table.metadata.snapshot_by_id(ref.snapshot_id)
    if snapshot is None:
        raise IcebergError(
            f"table {name_of(table)} has no snapshot; Frazil's tables are made with an empty first one"
        )
    return snapshot


def ancestors(table: Table) -> Iterator[Snapshot]:
    """Yields the snapshots of main, newest first, as far back as they have not expired."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    snapshot: Snapshot | None = current_snapshot(table)
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else by_id.get(parent)


def summary_of(snapshot: Snapshot) -> Mapping[str, str]:
    return {} if snapshot.summary is None else snapshot.summary.additional_properties


def ranges_of(snapshot: Snapshot) -> tuple[Range, ...]:
    """Returns the ranges that a snapshot of Frazil moved. Other snapshots have none. Summaries lack the epochs."""
    moved = json.loads(summary_of(snapshot).get(RANGES, "[]"))
    return tuple(Range(partition, start, end, epoch="") for partition, start, end in moved)


def offsets_to_json(offsets: Mapping[int, int]) -> str:
    return json.dumps({str(partition): offsets[partition] for partition in sorted(offsets)}, separators=(",", ":"))


def ranges_to_json(ranges: Iterable[Range]) -> str:
    return json.dumps([[each.partition, each.start, each.end] for each in ranges], separators=(",", ":"))


def offset_properties(offsets: Mapping[int, int]) -> dict[str, str]:
    return {f"{OFFSET}{partition}": str(offset) for partition, offset in offsets.items()}


def snapshot_offsets(table: Table) -> dict[int, int] | None:
    """Returns the offsets in the newest summary on main that has them, or None if all such snapshots have expired."""
    for snapshot in ancestors(table):
        text = summary_of(snapshot).get(OFFSETS)
        if text is not None:
            return {int(partition): int(offset) for partition, offset in json.loads(text).items()}
    return None


def check_not_rolled_back(table: Table) -> None:
    """Raises `TableRolledBack` if the rows of the table end at other offsets than its properties say."""
    rows = snapshot_offsets(table)
    if rows is None:
        return
    offsets = _offsets(table)
    if differences := describe_differences(rows, offsets):
        raise TableRolledBack(
            f"table {name_of(table)} was rolled back, or its offsets were changed by hand: {differences}. Decide "
            f"with {_rollback_remedies(table)}"
        )


def _rollback_remedies(table: Table) -> str:
    topic, role = topic_of(table), table.metadata.properties.get(ROLE, "base")
    accept = resume_command(topic, "accept", role, name_of(table))
    if role == "dead-letter":
        return f"{accept} (letters that are missing stay so; the base table is past them)"
    replay = resume_command(topic, "replay", role, name_of(table))
    return (
        f"{replay} (go on at the first number, moving rows again) or {accept} (go on at the larger, whatever is "
        f"missing stays so)"
    )


def describe_differences(rows: Mapping[int, int], offsets: Mapping[int, int]) -> str:
    """Describes each partition whose offsets in the rows and in the properties differ."""
    return ", ".join(
        f"partition {partition}: rows up to {rows.get(partition, 0)}, properties say {offsets.get(partition, 0)}"
        for partition in sorted(rows.keys() | offsets.keys())
        if rows.get(partition, 0) != offsets.get(partition, 0)
    )


def _offsets(table: Table) -> dict[int, int]:
    found = {}
    for key, value in table.metadata.properties.items():
        if key.startswith(OFFSET):
            try:
                found[int(key[len(OFFSET) :])] = int(value)
            except ValueError:
                raise IcebergError(f"table {name_of(table)}: property {key} = {value!r} is not an offset") from None
    return found
