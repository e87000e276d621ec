"""Makes topics for tests of queries: they are written with the real log, and moved by the code of the real tasks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyiceberg.table import Table

from frazil.config.model import Config
from frazil.formats import kafka
from frazil.lake.catalog.lake import Lake
from frazil.lake.tables.tables import base_identifier
from frazil.log.log import Log
from frazil.log.writer.writer import PartitionWriter
from tests.lake.support import local_config
from tests.pipeline.support import move_all, pipeline_context

BY_HAND = {"interval_seconds": 3600.0, "max_rows": 10_000_000, "max_mb": 1000}
"""Nothing is sealed before a test says so."""

ROWS = pa.schema([("id", pa.int64()), ("text", pa.string())])


def rows(start: int, count: int) -> pa.RecordBatch:
    ids = range(start, start + count)
    return pa.record_batch([pa.array(ids, pa.int64()), pa.array([f"row {i}" for i in ids])], schema=ROWS)


def kafka_record(
    offset: int, partition: int = 0, key: bytes | None = None, value: bytes | None = None, seconds: int = 0
) -> dict[str, Any]:
    return {
        kafka.KEY: key,
        kafka.VALUE: value,
        kafka.HEADERS: [],
        kafka.TIMESTAMP: datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds),
        kafka.TIMESTAMP_TYPE: 0,
        kafka.PARTITION: partition,
        kafka.OFFSET: offset,
    }


def kafka_batch(records: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(records, schema=kafka.SCHEMA)


class World:
    """Has a data folder with a log and a lake. Use it as a context manager."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.config: Config = local_config(folder, **{"log": {"seal": BY_HAND}, **settings})
        self.log = Log(self.config)

    def __enter__(self) -> World:
        return self

    def __exit__(self, *_: object) -> None:
        self.log.close(seal=False)

    def writer(self, topic: str, partition: int = 0, schema: pa.Schema | None = None) -> PartitionWriter:
        return self.log.writer(topic, schema, partition=partition)

    def append(self, topic: str, batch: pa.RecordBatch, partition: int = 0) -> None:
        """Appends records that stay in the tail."""
        writer = self.writer(topic, partition, batch.schema)
        # Without a WAL an append is acknowledged when it is sealed.
        writer.append(batch) if writer.options.ack == "local" else writer.submit(batch)

    def seal(self, topic: str, partition: int = 0) -> None:
        self.writer(topic, partition).seal_all()

    def move(self, topic: str) -> None:
        """Moves everything that is sealed to the table."""
        with pipeline_context(self.config) as tools:
            move_all(tools, topic)

    def fill(self, topic: str, batch: pa.RecordBatch, moved: int, sealed: int) -> None:
        """Puts the first rows into the table, the next into a segment, and the rest into the tail."""
        for start, end, then in ((0, moved, "move"), (moved, sealed, "seal"), (sealed, len(batch), "")):
            if start == end:
                continue
            self.append(topic, batch.slice(start, end - start))
            if then:
                self.seal(topic)
            if then == "move":
                self.move(topic)

    def table(self, topic: str) -> Table:
        return Lake(self.config).load(base_identifier(self.config, topic))

    def compact(self, topic: str) -> None:
        """Compacts all files into one, in a snapshot that is not ours."""
        table = self.table(topic)
        if len(rows := table.scan().to_arrow()):
            table.overwrite(rows)
