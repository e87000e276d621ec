"""What tests beside this share."""

from __future__ import annotations

import pyarrow as pa

from frazil.config.model import Config
from frazil.errors import TableNotFound
from frazil.lake.catalog.lake import Lake
from frazil.lake.commit.offsets import TableState
from frazil.lake.tables.tables import base_identifier
from frazil.log.log import Log
from tests.servers.spark import SHORT_LIVED

QUICK = {"flush_interval_seconds": 0.2, "poll_interval_ms": 100, "spark": SHORT_LIVED}


SCHEMA = pa.schema([("id", pa.int64()), ("text", pa.string())])


def append(log: Log, topic: str, count: int, partition: int = 0) -> None:
    writer = log.writer(topic, SCHEMA, partition=partition)
    start = writer.next_offset
    ids = list(range(start, start + count))
    writer.append(pa.RecordBatch.from_pydict({"id": ids, "text": [f"row {i}" for i in ids]}, SCHEMA))
    writer.seal_all()


def committed(config: Config, topic: str) -> dict[int, int]:
    lake = Lake(config)
    try:
        return dict(TableState.of(lake.load(base_identifier(config, topic))).offsets)
    except TableNotFound:
        return {}
    finally:
        lake.close()
