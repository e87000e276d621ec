"""Accepts the current log for a table whose log was replaced, cut short or trimmed too far, when a person decides so.

Rows are kept, and no record is moved twice. A base table never goes back: dead letters, readers and derived tables
find its rows by partition and offset, so no two rows may have the same. Frazil does not read derived tables, so a
derived table can start at the beginning of a new epoch of the log.
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
from frazil.scan.log_extents import EMPTY_EXTENT, LogExtent


class AcceptedLog(NamedTuple):
    table: Table
    missing: tuple[str, ...]
    """Sentences about the records of the log that the table will not get."""


def accept_log(lake: Lake, table: Table, extents: Mapping[int, LogExtent]) -> AcceptedLog:
    """Sets the table's offsets for the current log.

    Raises `CasConflict` if the table has changed since it was loaded.
    """
    state = TableState.of(table)
    if state.role == "dead-letter":
        # Its rows decide which records are left out of the base table, and they came from another log.
        raise IcebergError(
            f"table {name_of(table)} cannot go on with another log: "
            f"{resume_command(state.topic, 'recreate', state.role, state.name)} puts it aside"
        )
    offsets, epochs, missing = {}, {}, []
    for partition, offset in sorted(state.offsets.items()):
        extent = extents.get(partition, EMPTY_EXTENT)
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


def _shared_end(epoch: str, offset: int, extent: LogExtent) -> int:
    """Returns the offset up to which table and log have the same records.

    The table was filled up to `offset`, and its last record was of this epoch.
    """
    if epoch and extent.epochs is not None:
        history = extent.epochs.history
        known = [name for name, _ in history]
        if epoch not in known:
            return 0
        ends = [start for _, start in history[known.index(epoch) + 1 :]]
        return min(offset, extent.end, *ends)
    return min(offset, extent.end)
