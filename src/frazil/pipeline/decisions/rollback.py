"""Carries out what a person decides about a table that was rolled back.

Each decision is an empty snapshot with the offsets that the table has from then on. So rows and properties agree
again, and requests that were sent before it can never be accepted any more.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyiceberg.table import Table

from frazil.errors import IcebergError, SegmentsGone
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.commit import send
from frazil.lake.commit.complete_offsets import complete_from_properties
from frazil.lake.commit.offsets import (
    EPOCH,
    OFFSETS,
    TableState,
    describe_differences,
    name_of,
    offset_properties,
    offsets_to_json,
    snapshot_offsets,
)
from frazil.lake.commit.proposals import propose
from frazil.lake.commit.resume_command import resume_command

DECISION = "frazil.decision"
"""The key in the snapshot's summary for the decision, `replay` or `accept`."""


def replay_table(lake: Lake, table: Table, log_starts: Mapping[int, int]) -> Table:
    """Sets the offsets back to where the table's rows end, so that the log is moved again from there.

    `log_starts` are the first offsets that the log still has. Raises `SegmentsGone` if the log begins after the rows
    end, and `CasConflict` if the table has changed since it was loaded.
    """
    rows, state = _rows(table), TableState.of(table)
    offsets = dict.fromkeys(state.offsets, 0) | rows
    gone = ", ".join(
        f"partition {partition}: rows up to {offset}, log from {log_starts[partition]}"
        for partition, offset in sorted(offsets.items())
        if log_starts.get(partition, 0) > offset
    )
    if gone:
        raise SegmentsGone(
            f"table {name_of(table)} cannot be replayed, the log no longer has the rows: {gone}. "
            f"{resume_command(state.topic, 'accept', state.role, state.name)} goes on without them"
        )
    return commit_decision(lake, table, "replay", offsets)


def accept_table_state(lake: Lake, table: Table) -> Table:
    """Keeps the rows as they are and goes on at the offsets of the properties, but never before the end of the rows.

    A dead-letter table goes on where its rows end. It lags behind the base table anyway, and if its offset were
    higher, it would have to have the letters up to there.
    """
    rows, state = _rows(table), TableState.of(table)
    offsets = dict.fromkeys(state.offsets, 0) if state.role == "dead-letter" else state.offsets
    both = {at: max(rows.get(at, 0), offsets.get(at, 0)) for at in rows.keys() | offsets.keys()}
    gaps = {at: offset - 1 for at, offset in both.items() if offset > rows.get(at, 0)}
    return commit_decision(lake, table, "accept", both, gaps=gaps)


def _rows(table: Table) -> dict[int, int]:
    """Returns the offsets where the rows end. Raises if the table was not rolled back."""
    rows = snapshot_offsets(table)
    if rows is None or not describe_differences(rows, TableState.of(table).offsets):
        raise IcebergError(f"table {name_of(table)} was not rolled back: its rows and its offsets agree")
    return rows


def commit_decision(
    lake: Lake,
    table: Table,
    decision: str,
    offsets: Mapping[int, int],
    epochs: Mapping[int, str] | None = None,
    gaps: Mapping[int, int] | None = None,
) -> Table:
    """Commits a snapshot with all these offsets and these epochs.

    `gaps` are the highest offsets whose rows the table lacks. They are stored, so that readers by offset get an
    error.
    """
    summary = {DECISION: decision, OFFSETS: offsets_to_json(offsets)}
    lives = {f"{EPOCH}{partition}": epoch for partition, epoch in (epochs or {}).items()}
    properties = offset_properties(offsets) | lives | complete_from_properties(table, gaps or {})
    return send(lake, table, propose(table, (), summary, properties))
