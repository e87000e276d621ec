"""Checks that a table was filled from this log, and can be filled further."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.errors import EpochChanged, OffsetsAhead, SegmentsGone
from frazil.lake.commit.offsets import TableState
from frazil.lake.commit.resume_command import resume_command
from frazil.scan.log_extents import EMPTY_EXTENT, LogExtent


def check_against_log(state: TableState, extents: Mapping[int, LogExtent]) -> None:
    """Raises an error if the table and the log do not fit together. A person must then decide, we never guess."""
    for partition, offset in sorted(state.offsets.items()):
        extent = extents.get(partition, EMPTY_EXTENT)
        where = f"{state.topic}/{partition}"
        if offset > extent.end:
            raise OffsetsAhead(
                f"{where}: the table has rows up to offset {offset}, but the log ends at {extent.end}. Either the "
                f"log lost segments or {state.name} was filled from another. Restore the segments, or decide: "
                f"{_remedies(state, ahead=True)}."
            )
        epoch = state.epochs.get(partition)
        if epoch and extent.epochs and offset > 0:
            try:
                extent.epochs.check(epoch, offset, where)
            except EpochChanged as changed:
                raise EpochChanged(
                    f"{changed} The table {state.name} has rows up to offset {offset} of what the log was before. "
                    f"Decide: {_remedies(state, ahead=False)}."
                ) from None
        # Derived tables find in the base table what the log no longer has, and dead letters come with its rows.
        if offset < extent.start and state.role == "base":
            raise SegmentsGone(
                f"{where}: table {state.name} needs offset {offset} next, but the log starts at {extent.start}. "
                f"Restore the segments, or decide: {_command(state, 'accept')} goes on at {extent.start} without "
                f"what is missing."
            )


def _command(state: TableState, decision: str) -> str:
    return resume_command(state.topic, decision, state.role, state.name)


def _remedies(state: TableState, ahead: bool) -> str:
    recreate = f"{_command(state, 'recreate')} puts the table aside under another name and makes another"
    if state.role == "dead-letter":
        return f"{recreate} when it is needed"
    if state.role == "derived":
        return f"{_command(state, 'accept')} goes on with what it does not have of this log; {recreate}"
    recreate = f"{recreate}, for all that the log has"
    if ahead:
        return recreate
    return f"{recreate}; {_command(state, 'accept')} keeps it and moves nothing to offsets where it has rows"
