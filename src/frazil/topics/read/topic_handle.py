"""Gives readers access to a topic's log and table."""

from __future__ import annotations

from dataclasses import dataclass

from pyiceberg.table import Table

from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.complete_offsets import complete_from
from frazil.lake.commit.offsets import TableState, check_not_rolled_back
from frazil.lake.tables.table_check import TableStatus, check_table
from frazil.lake.tables.tables import base_identifier
from frazil.log.log import Log
from frazil.log.reader import PartitionReader


@dataclass(frozen=True)
class TablePartition:
    """Says what a table has of one partition."""

    table: Table
    complete: int
    """No message was removed from this offset on."""
    committed: int
    """Messages below this offset are in the table, or were."""


@dataclass(frozen=True)
class TopicHandle:
    """May be used by any thread."""

    topic: str
    log: Log
    lake: Lake

    def where(self, partition: int) -> str:
        return f"{self.topic}/{partition}"

    def reader(self, partition: int) -> PartitionReader:
        return self.log.reader(self.topic, partition)

    def table(self) -> Table | None:
        """Returns the base table as it is now, or None before it exists. Raises an error if it cannot be used."""
        identifier = base_identifier(self.log.config, self.topic)
        check = check_table(self.lake, self.log.store, self.topic, identifier)
        if check.status is TableStatus.NEVER_CREATED:
            return None
        if check.status is not TableStatus.OK:
            raise check.error()
        assert check.table is not None
        check_not_rolled_back(check.table)
        return check.table

    def table_partition(self, partition: int) -> TablePartition | None:
        table = self.table()
        committed = None if table is None else TableState.of(table).next_offset(partition)
        if table is None or committed is None:
            return None
        return TablePartition(table, complete_from(table).get(partition, 0), committed)
