"""What keeps old rows in a table: others who have not read them yet.

A derived table reads from the base table what the log does not have any more, and the base table reads from the
dead letters which rows it is to leave out. Rows go only below the offsets that these have passed.
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
    """Rows may go below these offsets; of a partition that is not named, none."""
    behind: tuple[str, ...]
    """Who is behind the table, in words."""

    @property
    def reason(self) -> str:
        return ", ".join(self.behind)

    def has_passed(self, highest: Mapping[int, int]) -> bool:
        """Whether rows up to these offsets may go."""
        return all(offset < self.below.get(partition, 0) for partition, offset in highest.items())

    @property
    def sql(self) -> str:
        """True for rows that may go. Rows that did not come from the log, of an adopted table, are nobody's wait."""
        passed = "".join(
            f" OR ({PARTITION} = {partition} AND {OFFSET} < {offset})" for partition, offset in self.below.items()
        )
        return f"({PARTITION} IS NULL{passed})"


def read_progress(context: MaintenanceContext, table: Table) -> ReadProgress | None:
    """What holds the rows of this table; None if their offsets do not matter to anybody."""
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
    """How far it has read. Of one that was rolled back nobody knows yet whether it will read again what it lost."""
    offsets, rows = TableState.of(reader).offsets, snapshot_offsets(reader)
    if rows is None:
        return dict(offsets)
    return {partition: min(offset, rows.get(partition, 0)) for partition, offset in offsets.items()}


def highest_offsets(table: Table, file: DataFile) -> dict[int, int]:
    """The highest offset of each partition in a file: by its statistics, or where those do not tell, by its rows."""
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
    """The first and last partition of a file and its highest offset, where its statistics tell."""
    return (
        _bound(table, file.lower_bounds, PARTITION),
        _bound(table, file.upper_bounds, PARTITION),
        _bound(table, file.upper_bounds, OFFSET),
    )


def lowest_offset(table: Table, file: DataFile) -> tuple[int, int] | None:
    """Partition and lowest offset, of a file that has rows of one partition and says so."""
    first, last = _bound(table, file.lower_bounds, PARTITION), _bound(table, file.upper_bounds, PARTITION)
    lowest = _bound(table, file.lower_bounds, OFFSET)
    return (first, lowest) if first is not None and first == last and lowest is not None else None


def _bound(table: Table, bounds: Mapping[int, bytes] | None, column: str) -> int | None:
    field = table.schema().find_field(column)
    assert isinstance(field.field_type, PrimitiveType)
    stored = (bounds or {}).get(field.field_id)
    return None if stored is None else int(from_bytes(field.field_type, stored))


def _derived(context: MaintenanceContext, base: Table) -> Iterator[Table]:
    """The derived tables of this base table: those of the settings, and those that are remembered beside the log."""
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
