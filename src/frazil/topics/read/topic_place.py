"""A topic with its log and its table, for those who read it."""

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
class Cold:
    """What a table has of one partition."""

    table: Table
    complete: int
    """From here on nothing was taken away."""
    committed: int
    """What is below this offset is in the table, or was."""


@dataclass(frozen=True)
class TopicPlace:
    """Any thread may ask."""

    topic: str
    log: Log
    lake: Lake

    def where(self, partition: int) -> str:
        return f"{self.topic}/{partition}"

    def reader(self, partition: int) -> PartitionReader:
        return self.log.reader(self.topic, partition)

    def table(self) -> Table | None:
        """The base table as it is now; None before there is one. An error says why it cannot be used."""
        identifier = base_identifier(self.log.config, self.topic)
        check = check_table(self.lake, self.log.store, self.topic, identifier)
        if check.status is TableStatus.NEVER_CREATED:
            return None
        if check.status is not TableStatus.OK:
            raise check.error()
        assert check.table is not None
        check_not_rolled_back(check.table)
        return check.table

    def cold(self, partition: int) -> Cold | None:
        table = self.table()
        committed = None if table is None else TableState.of(table).next_offset(partition)
        if table is None or committed is None:
            return None
        return Cold(table, complete_from(table).get(partition, 0), committed)
