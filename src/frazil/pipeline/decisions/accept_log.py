"""What a person can decide about a table whose log is not what it was: replaced, cut short, or trimmed too far.

Rows are kept, and nothing is moved twice. A base table never goes back: dead letters, readers and derived tables find
its rows by partition and offset, so no two may have the same. Nobody reads a derived table here, so it can begin with
a new life of the log where that begins.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from pyiceberg.table import Table

from frazil.errors import IcebergError, OffsetsAhead
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.offsets import TableState, name_of
from frazil.lake.commit.resume_command import resume_command
from frazil.pipeline.decisions.rollback import commit_decision
from frazil.scan.extents import NOTHING, Extent


class AcceptedLog(NamedTuple):
    table: Table
    missing: tuple[str, ...]
    """What of the log the table does not get, in sentences."""


def accept_log(lake: Lake, table: Table, extents: Mapping[int, Extent]) -> AcceptedLog:
    """Go on with the log that is there. A `CasConflict` means that the table has changed since it was loaded."""
    state = TableState.of(table)
    if state.role == "dead-letter":
        # Its rows decide which rows of the log are left out of the base table, and these are of another log.
        raise IcebergError(
            f"table {name_of(table)} cannot go on with another log: "
            f"{resume_command(state.topic, 'recreate', state.role, state.name)} puts it aside"
        )
    offsets, epochs, missing = {}, {}, []
    for partition, offset in sorted(state.offsets.items()):
        extent = extents.get(partition, NOTHING)
        shared = _shared_end(state.epochs.get(partition, ""), offset, extent)
        if state.role == "derived":
            place = offset if shared >= offset else max(shared, extent.start)
        else:
            if offset > extent.end:
                raise OffsetsAhead(
                    f"{state.topic}/{partition}: the log ends at offset {extent.end} and will give offsets up to "
                    f"{offset} to records that are not those in {name_of(table)}. "
                    f"{resume_command(state.topic, 'recreate', state.role, state.name)} puts the table aside instead"
                )
            place = max(offset, extent.start)
            if max(shared, extent.start) < offset:
                missing.append(
                    f"What the log has from offset {max(shared, extent.start)} up to {offset} of partition "
                    f"{partition} is not moved, as the table has other rows there."
                )
            if offset < extent.start:
                missing.append(
                    f"What was from offset {offset} up to {extent.start} of partition {partition} is in the log no "
                    f"more and stays missing."
                )
        offsets[partition] = place
        if place > 0 and extent.epochs is not None:
            epochs[partition] = extent.epochs.at(place - 1)
    if offsets == state.offsets and epochs.items() <= state.epochs.items():
        raise IcebergError(f"table {name_of(table)} and the log agree: there is nothing to accept")
    gaps = {each: place - 1 for each, place in offsets.items() if place > state.offsets[each]}
    return AcceptedLog(commit_decision(lake, table, "accept", offsets, epochs, gaps), tuple(missing))


def _shared_end(epoch: str, offset: int, extent: Extent) -> int:
    """Up to where the log has the records that the table has, which was filled up to `offset` in this epoch."""
    if epoch and extent.epochs is not None:
        history = extent.epochs.history
        known = [name for name, _ in history]
        if epoch not in known:
            return 0
        ends = [start for _, start in history[known.index(epoch) + 1 :]]
        return min(offset, extent.end, *ends)
    return min(offset, extent.end)
