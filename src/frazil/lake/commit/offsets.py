"""What a table says of itself: the offsets it needs next, and whether its rows agree.

The committed offsets are table properties, which survive compaction and the expiry of snapshots. Each snapshot of
Frazil's repeats the full map in its summary. Going back to an older snapshot changes the rows and leaves the
properties, and the map of the snapshot that is current then gives it away.
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
"""Table properties; the last two end with the number of a partition."""

ATTEMPT = "frazil.attempt"
OFFSETS = "frazil.offsets"
RANGES = "frazil.ranges"
APPLICATION = "frazil.spark.application"
TASKS = "frazil.spark.tasks"
"""Keys of a snapshot's summary."""


@dataclass(frozen=True)
class TableState:
    uuid: uuid.UUID
    name: str
    topic: str
    role: str
    offsets: Mapping[int, int]
    """Next offset needed, of each partition that the table has heard of."""
    epochs: Mapping[int, str]
    snapshot_id: int
    """The snapshot of main."""
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
    """The topic whose table it is, for words to people."""
    return table.metadata.properties.get(TOPIC, "TOPIC")


def name_of(table: Table) -> str:
    """The table's name as people write it."""
    return ".".join(table.name())


def current_snapshot(table: Table) -> Snapshot:
    """The snapshot of main. A table without one is never written to: not every catalog checks that there is none."""
    ref = table.metadata.refs.get(MAIN_BRANCH)
    snapshot = None if ref is None else table.metadata.snapshot_by_id(ref.snapshot_id)
    if snapshot is None:
        raise IcebergError(
            f"table {name_of(table)} has no snapshot; Frazil's tables are made with an empty first one"
        )
    return snapshot


def ancestors(table: Table) -> Iterator[Snapshot]:
    """The snapshots of main, newest first, as far back as the table still knows them."""
    by_id = {snapshot.snapshot_id: snapshot for snapshot in table.metadata.snapshots}
    snapshot: Snapshot | None = current_snapshot(table)
    while snapshot is not None:
        yield snapshot
        parent = snapshot.parent_snapshot_id
        snapshot = None if parent is None else by_id.get(parent)


def summary_of(snapshot: Snapshot) -> Mapping[str, str]:
    return {} if snapshot.summary is None else snapshot.summary.additional_properties


def ranges_of(snapshot: Snapshot) -> tuple[Range, ...]:
    """What a snapshot of Frazil's moved; nothing for other snapshots. Summaries do not say the epochs."""
    moved = json.loads(summary_of(snapshot).get(RANGES, "[]"))
    return tuple(Range(partition, start, end, epoch="") for partition, start, end in moved)


def offsets_to_json(offsets: Mapping[int, int]) -> str:
    return json.dumps({str(partition): offsets[partition] for partition in sorted(offsets)}, separators=(",", ":"))


def ranges_to_json(ranges: Iterable[Range]) -> str:
    return json.dumps([[each.partition, each.start, each.end] for each in ranges], separators=(",", ":"))


def offset_properties(offsets: Mapping[int, int]) -> dict[str, str]:
    return {f"{OFFSET}{partition}": str(offset) for partition, offset in offsets.items()}


def snapshot_offsets(table: Table) -> dict[int, int] | None:
    """The offset map of the newest snapshot of main that has one; nothing when none is left."""
    for snapshot in ancestors(table):
        text = summary_of(snapshot).get(OFFSETS)
        if text is not None:
            return {int(partition): int(offset) for partition, offset in json.loads(text).items()}
    return None


def check_not_rolled_back(table: Table) -> None:
    """Raise `TableRolledBack` when the rows of the table end elsewhere than its offsets say."""
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
    """Both numbers of each partition where the rows and the properties disagree."""
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
