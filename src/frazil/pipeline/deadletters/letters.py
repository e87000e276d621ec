"""Reads dead letters, and marks those that were replayed.

To mark letters, their files are written again with the time in `replayed_at`. Only the base table decides whether it
has a row, so a mark that was lost or came late does no harm.
"""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.expressions import BooleanExpression
from pyiceberg.expressions.parser import parse
from pyiceberg.table import FileScanTask, Table

from frazil.errors import CasConflict
from frazil.failpoints import failpoint
from frazil.formats import kafka
from frazil.lake.catalog.calls import calling
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.attempts import attempt_folder, new_attempt
from frazil.lake.commit.commit import send
from frazil.lake.commit.offsets import (
    OFFSETS,
    TableState,
    current_snapshot,
    name_of,
    offset_properties,
    offsets_to_json,
)
from frazil.lake.commit.proposals import propose
from frazil.lake.write.data_files import DataFileWriter
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.scan.table_files import FileReader, read_rows

REPLAYED_AT = "replayed_at"
MARKED = "frazil.letters.marked"
"""The key in a snapshot's summary for the number of letters that it marks."""

_LISTED = (PARTITION, OFFSET, kafka.PARTITION, kafka.OFFSET, "failed_at", REPLAYED_AT, "schema_version", "error")
_TRIES = 10


class RecordLocation(NamedTuple):
    """The partition and offset of a record in the log."""

    partition: int
    offset: int


def letter_filter(partition: int, offset: int | None = None) -> BooleanExpression:
    """Returns a filter for the letters of a partition, or for the letter at an offset."""
    one = "" if offset is None else f" and {OFFSET} == {offset}"
    return parse(f"{PARTITION} == {partition}{one}")


def read_letters(
    table: Table, columns: Sequence[str], where: BooleanExpression | None = None
) -> Iterator[pa.RecordBatch]:
    """Yields the letters that are in the table now, in no particular order."""
    return read_rows(table, columns, where)


def newest_letters(table: Table, limit: int, partition: int | None = None) -> list[dict[str, Any]]:
    """Returns the letters that failed last, without their bytes."""
    columns = [name for name in _LISTED if name in table.schema().column_names]
    where = None if partition is None else letter_filter(partition)
    batches = list(read_letters(table, columns, where))
    if not batches:
        return []
    order = [("failed_at", "descending"), (PARTITION, "ascending"), (OFFSET, "descending")]
    found: list[dict[str, Any]] = pa.Table.from_batches(batches).sort_by(order).slice(0, limit).to_pylist()
    return found


def find_letter(table: Table, partition: int, offset: int) -> dict[str, Any] | None:
    """Returns one letter with its bytes, or None if there is none at this offset."""
    columns = [name for name in (*_LISTED, "key", "value") if name in table.schema().column_names]
    for batch in read_letters(table, columns, letter_filter(partition, offset)):
        for letter in batch.to_pylist():
            return dict(letter)
    return None


def mark_replayed(
    lake: Lake, table: Table, locations: Collection[RecordLocation], now_ms: int, rng: random.Random
) -> int:
    """Writes the time into the letters at these locations that have none, and returns how many these were."""
    for _ in range(_TRIES):
        try:
            return _mark(lake, table, locations, now_ms, rng)
        except CasConflict:
            table = lake.load(table.name())
    raise CasConflict(
        f"Table {name_of(table)} is being changed by others all the time; the letters are marked later."
    )


def _mark(lake: Lake, table: Table, locations: Collection[RecordLocation], now_ms: int, rng: random.Random) -> int:
    files = _files_of(table, locations)
    if not files:
        return 0
    reader = FileReader.of(table, None)
    folder = attempt_folder(table.metadata.location, new_attempt(now_ms, rng))
    now = pa.scalar(now_ms * 1000, pa.int64()).cast(pa.timestamp("us", "UTC"))
    marked = 0
    with DataFileWriter(table.io, table.metadata, folder, 0) as writer:
        for batch in reader.read(files, table.schema()):
            chosen = _unmarked(batch, locations)
            marked += chosen.true_count
            times = pc.if_else(chosen, now, batch.column(REPLAYED_AT))
            at = batch.schema.get_field_index(REPLAYED_AT)
            writer.write(batch.set_column(at, REPLAYED_AT, times))
        written = writer.close()
    failpoint("letters.written")
    state = TableState.of(table)
    summary = {MARKED: str(marked), OFFSETS: offsets_to_json(state.offsets)}
    replaced = [task.file for task in files]
    send(lake, table, propose(table, written, summary, offset_properties(state.offsets), replaced))
    failpoint("letters.marked")
    return marked


def _files_of(table: Table, locations: Collection[RecordLocation]) -> list[FileScanTask]:
    """Returns the files with letters at these locations that are not marked yet."""
    with calling(f"Reading table {name_of(table)}"):
        snapshot_id = current_snapshot(table).snapshot_id
        tasks = table.scan(f"{REPLAYED_AT} is null", snapshot_id=snapshot_id).plan_files()
        wanted = table.schema().select(PARTITION, OFFSET, REPLAYED_AT)
        reader = FileReader.of(table, None)
        return [
            task
            for task in tasks
            if any(_unmarked(batch, locations).true_count for batch in reader.read([task], wanted))
        ]


def _unmarked(batch: pa.RecordBatch, locations: Collection[RecordLocation]) -> pa.BooleanArray:
    return pc.and_(is_at_location(batch, locations), batch.column(REPLAYED_AT).is_null())


def is_at_location(rows: pa.RecordBatch, locations: Collection[RecordLocation]) -> pa.BooleanArray:
    """Returns which rows are at one of these locations."""
    found = pa.repeat(pa.scalar(False), len(rows))
    for partition in {location.partition for location in locations}:
        offsets = pa.array([location.offset for location in locations if location.partition == partition], pa.int64())
        same = pc.equal(rows.column(PARTITION), partition)
        found = pc.or_(found, pc.and_(same, pc.is_in(rows.column(OFFSET), value_set=offsets)))
    return found
