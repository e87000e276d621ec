"""How far the sealed log of each partition reaches, and whether a table's offsets fit it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from frazil.errors import OffsetsAhead
from frazil.lake.offsets import TableState
from frazil.log.epochs import Epochs
from frazil.log.index import SegmentIndex
from frazil.log.store import ObjectStore
from frazil.log.topics import list_partitions


@dataclass(frozen=True)
class Extent:
    start: int
    end: int
    epochs: Epochs | None

    @property
    def epoch(self) -> str:
        return self.epochs.current if self.epochs else ""


def log_extents(store: ObjectStore, topic: str) -> dict[int, Extent]:
    extents = {}
    for partition in list_partitions(store, topic):
        index = SegmentIndex(store, topic, partition)
        index.refresh()
        newest = index.newest()
        extents[partition] = Extent(index.start, index.sealed_end(), newest.epochs if newest else None)
    return extents


def check_against_log(state: TableState, extents: Mapping[int, Extent]) -> None:
    """Raise when the table cannot have been filled from this log. A person must say what to do."""
    for partition, offset in sorted(state.offsets.items()):
        extent = extents.get(partition, Extent(0, 0, None))
        where = f"{state.topic}/{partition}"
        if offset > extent.end:
            raise OffsetsAhead(
                f"{where}: the table has rows up to offset {offset}, but the log ends at {extent.end}. Either the "
                f"log lost segments or this is another log: restore the segments, or rename the table away and run "
                f"`frazil topics resume {state.topic} --recreate`."
            )
        epoch = state.epochs.get(partition)
        if epoch and extent.epochs and offset > 0:
            extent.epochs.check(epoch, offset, where)
