"""Finds out how far the readers of a table have read, because retention must not remove rows before they are read.

A derived table reads from the base table what the log does not have any more, and the base table reads from the
dead-letter table which rows it leaves out. Rows are removed only below the offsets that these readers have passed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow.compute as pc
from pyiceberg.conversions import from_bytes
from pyiceberg.manifest import DataFile
from pyiceberg.table import FileScanTask, Table
from pyiceberg.types import PrimitiveType

from frazil.lake.catalog.lake import dotted
from frazil.lake.commit.offsets import ROLE, TOPIC, TableState, name_of, snapshot_offsets
from frazil.lake.tables.table_history import table_history
from frazil.lake.tables.tables import (
    base_identifier,
    dead_letter_identifier,
    derived_identifier,
    find_table,
)
from frazil.log.schema.columns import OFFSET, PARTITION
from frazil.maintain.context import MaintenanceContext
from frazil.maintain.report import NotOurs
from frazil.scan.table_files import FileReader


@dataclass(frozen=True)
class ReadProgress:
    below: Mapping[int, int]
    """The offsets below which all readers have read the rows. No row of a missing partition was read by all."""
    behind: tuple[str, ...]
    """The readers that are behind the table, in words."""

    @property
    def reason(self) -> str:
        return ", ".join(self.behind)

    def has_passed(self, highest: Mapping[int, int]) -> bool:
        """Returns whether all readers have read the rows up to these offsets."""
        return all(offset < self.below.get(partition, 0) for partition, offset in highest.items())

    @property
    def sql(self) -> str:
        """A condition that is true for rows that all readers have read.

        Rows of an adopted table that did not come from the log have no partition, and no reader waits for them.
        """
        passed = "".join(
            f" OR ({PARTITION} = {partition} AND {OFFSET} < {offset})" for partition, offset in self.below.items()
        )
        return f"({PARTITION} IS NULL{passed})"


def read_progress(context: MaintenanceContext, table: Table) -> ReadProgress | None:
    """Returns how far the readers of this table have read, or None if nobody reads it by offset."""
    role = table.metadata.properties.get(ROLE, "base")
    if role == "derived":
        return None
    readers = _derived(context, table) if role == "base" else _base(context, table)
    below = dict(TableState.of(table).offsets)
    behind = []
    for reader in readers:
        passed = _passed(reader)
        lags = [
            f"at {passed.get(partition, 0)} of partition {partition}, which goes to {end}"
            for partition, end in sorted(TableState.of(table).offsets.items())
            if passed.get(partition, 0) < end
        ]
        if lags:
            behind.append(f"{name_of(reader)} ({'; '.join(lags)})")
        below = {partition: min(end, passed.get(partition, 0)) for partition, end in below.items()}
    return ReadProgress(below, tuple(behind))


def _passed(reader: Table) -> dict[int, int]:
    """Returns how far a reader has read. One that was rolled back may have to read again what it lost."""
    offsets, rows = TableState.of(reader).offsets, snapshot_offsets(reader)
    if rows is None:
        return dict(offsets)
    return {partition: min(offset, rows.get(partition, 0)) for partition, offset in offsets.items()}


def highest_offsets(table: Table, file: DataFile) -> dict[int, int]:
    """Returns the highest offset of each partition in a file, by its statistics, or by its rows if those lack it."""
    first, last, highest = bounds_of(table, file)
    if first is not None and first == last and highest is not None:
        return {first: highest}
    found: dict[int, int] = {}
    wanted = table.schema().select(PARTITION, OFFSET)
    for batch in FileReader.of(table, None).read([FileScanTask(file)], wanted):
        rows = batch.drop_null()
        for partition in pc.unique(rows.column(PARTITION)).to_pylist():
            mine = pc.filter(rows.column(OFFSET), pc.equal(rows.column(PARTITION), partition))
            found[partition] = max(found.get(partition, 0), pc.max(mine).as_py())
    return found


def bounds_of(table: Table, file: DataFile) -> tuple[int | None, int | None, int | None]:
    """Returns the first and last partition of a file and its highest offset, as far as its statistics have them."""
    return (
        _bound(table, file.lower_bounds, PARTITION),
        _bound(table, file.upper_bounds, PARTITION),
        _bound(table, file.upper_bounds, OFFSET),
    )


def lowest_offset(table: Table, file: DataFile) -> tuple[int, int] | None:
    """Returns partition and lowest offset of a file, if its statistics show that it has rows of one partition."""
    first, last = _bound(table, file.lower_bounds, PARTITION), _bound(table, file.upper_bounds, PARTITION)
    lowest = _bound(table, file.lower_bounds, OFFSET)
    return (first, lowest) if first is not None and first == last and lowest is not None else None


def _bound(table: Table, bounds: Mapping[int, bytes] | None, column: str) -> int | None:
    field = table.schema().find_field(column)
    assert isinstance(field.field_type, PrimitiveType)
    stored = (bounds or {}).get(field.field_id)
    return None if stored is None else int(from_bytes(field.field_type, stored))


def _derived(context: MaintenanceContext, base: Table) -> Iterator[Table]:
    """Yields the derived tables of this base table, by the settings and by the table history of the topic."""
    topic, namespace = base.metadata.properties[TOPIC], base.name()[:-1]
    known = [each.identifier for each in table_history(context.store, topic) if each.role == "derived"]
    if base_identifier(context.config, topic) == base.name():
        known += [derived_identifier(context.config, topic, name) for name in context.config.topic(topic).derived]
    for identifier in dict.fromkeys(known):
        table = find_table(context.lake, identifier) if identifier[:-1] == namespace else None
        properties = table.metadata.properties if table is not None else {}
        if table is not None and properties.get(TOPIC) == topic and properties.get(ROLE) == "derived":
            yield table


def _base(context: MaintenanceContext, letters: Table) -> Iterator[Table]:
    topic = letters.metadata.properties[TOPIC]
    base = find_table(context.lake, base_identifier(context.config, topic))
    if base is None or dead_letter_identifier(context.config, topic) != letters.name():
        raise NotOurs(
            f"{dotted(letters.name())} has the dead letters of another table than "
            f"{dotted(base_identifier(context.config, topic))}, or that is gone: nobody knows which it still needs"
        )
    yield base
