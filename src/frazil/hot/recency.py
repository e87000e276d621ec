"""Decides which of several rows with a key is the newest, when they are in different partitions."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from frazil.formats import kafka
from frazil.log.schema.columns import OFFSET, PARTITION

_UNKNOWN = -(2**63)
_MICROSECONDS = {"s": 1_000_000, "ms": 1000, "us": 1}
_OF_KAFKA = {kafka.TIMESTAMP, kafka.OFFSET}


class Recency(NamedTuple):
    """Orders the last records of partitions: the greatest is the newest.

    Partitions have no order among each other. Without timestamps the higher offset wins, which is as good as any.
    """

    microseconds: int
    """This is Kafka's timestamp. A record without one counts as older."""
    offset: int
    """This is Kafka's offset, or else the log's."""
    partition: int


def recency_of(rows: pa.RecordBatch | pa.Table, row: int, partition: int, offset: int) -> Recency:
    """Returns the recency of a record or a row. `partition` and `offset` are those of the log."""
    if not set(rows.schema.names) >= _OF_KAFKA:
        return Recency(_UNKNOWN, offset, partition)
    time = rows.column(kafka.TIMESTAMP)[row]
    microseconds = time.value * _MICROSECONDS[time.type.unit] if time.is_valid else _UNKNOWN
    return Recency(microseconds, rows.column(kafka.OFFSET)[row].as_py(), partition)


class LastRow(NamedTuple):
    """Is the last row of a partition that has some key."""

    partition: int
    offset: int
    """This is the offset in the log."""
    row: pa.Table

    def recency(self) -> Recency:
        return recency_of(self.row, 0, self.partition, self.offset)


def last_rows(rows: pa.Table) -> list[LastRow]:
    """`rows` has at most one row of each partition."""
    places = zip(rows[PARTITION].to_pylist(), rows[OFFSET].to_pylist(), strict=True)
    return [LastRow(partition, offset, rows.slice(at, 1)) for at, (partition, offset) in enumerate(places)]
