"""Which of several rows with a key is the newest: in a partition the last one, among partitions the one told here."""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from frazil.formats import kafka
from frazil.log.schema.columns import OFFSET, PARTITION

_UNKNOWN = -(2**63)
_MICROSECONDS = {"s": 1_000_000, "ms": 1000, "us": 1}
_OF_KAFKA = {kafka.TIMESTAMP, kafka.OFFSET}


class Recency(NamedTuple):
    """Of the last record or row of a partition; the greatest is the newest.

    Partitions of a log know no order among each other: where there is no time, the higher offset is as good as any.
    """

    microseconds: int
    """Kafka's time; what has none is older than what has one."""
    offset: int
    """Kafka's, or else the log's."""
    partition: int


def recency_of(rows: pa.RecordBatch | pa.Table, row: int, partition: int, offset: int) -> Recency:
    """Of a record as the log has it, or of a row made of it; partition and offset are those of the log."""
    if not set(rows.schema.names) >= _OF_KAFKA:
        return Recency(_UNKNOWN, offset, partition)
    time = rows.column(kafka.TIMESTAMP)[row]
    microseconds = time.value * _MICROSECONDS[time.type.unit] if time.is_valid else _UNKNOWN
    return Recency(microseconds, rows.column(kafka.OFFSET)[row].as_py(), partition)


class LastRow(NamedTuple):
    """The last row of a partition that has some key."""

    partition: int
    offset: int
    """In the log."""
    row: pa.Table

    def recency(self) -> Recency:
        return recency_of(self.row, 0, self.partition, self.offset)


def last_rows(rows: pa.Table) -> list[LastRow]:
    """`rows` has one of each partition, at most."""
    places = zip(rows[PARTITION].to_pylist(), rows[OFFSET].to_pylist(), strict=True)
    return [LastRow(partition, offset, rows.slice(at, 1)) for at, (partition, offset) in enumerate(places)]
