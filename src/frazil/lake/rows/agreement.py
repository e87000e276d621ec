"""Whether a table was filled from this log."""

from __future__ import annotations

from collections.abc import Mapping

from frazil.errors import OffsetsAhead
from frazil.lake.offsets import TableState
from frazil.lake.rows.extents import NOTHING, Extent


def check_against_log(state: TableState, extents: Mapping[int, Extent]) -> None:
    """Raise when it cannot have been: a person must say what to do, it is never guessed."""
    for partition, offset in sorted(state.offsets.items()):
        extent = extents.get(partition, NOTHING)
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
