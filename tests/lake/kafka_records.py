"""Records as the Kafka door stores them, for tests that need no Kafka."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from frazil.formats import kafka
from frazil.log import layout
from frazil.log.topics.schemas import TopicSchemas
from frazil.log.writer.opening import open_writer
from frazil.log.writer.options import WriterOptions
from frazil.log.writer.writer import PartitionWriter
from frazil.store import ObjectStore
from tests.log.support import EXECUTOR, Machine

TOPIC = "clicks"
FIRST_KAFKA_OFFSET = 1000
"""Kafka's offsets differ from those of the log, and have gaps."""


def records(start: int, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None) -> pa.RecordBatch:
    """Makes records of these values, beginning at the log's offset `start`."""
    count = len(values)
    offsets = [kafka_offset(offset) for offset in range(start, start + count)]
    columns = [
        pa.array(keys if keys is not None else [f"k{offset % 7}".encode() for offset in offsets], pa.binary()),
        pa.array(values, pa.binary()),
        pa.array([[{"key": "n", "value": str(offset).encode()}] for offset in offsets], kafka.SCHEMA[2].type),
        pa.array([1_700_000_000_000 + offset for offset in offsets], kafka.SCHEMA[3].type),
        pa.array([0] * count, pa.int8()),
        pa.array([0] * count, pa.int32()),
        pa.array(offsets, pa.int64()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=kafka.SCHEMA)


def kafka_offset(offset: int) -> int:
    return FIRST_KAFKA_OFFSET + 2 * offset


def texts(values: Iterable[Any]) -> list[bytes | None]:
    """Encodes each value as JSON. Bytes, and None for a tombstone, stay as they are."""
    return [each if each is None or isinstance(each, bytes) else json.dumps(each).encode() for each in values]


def door(store: ObjectStore, folder: Path, partition: int = 0, topic: str = TOPIC, seed: int = 0) -> PartitionWriter:
    """Returns a writer like that of the Kafka door: it has no WAL, and seals when it is told to."""
    schemas = TopicSchemas(store, topic)
    schemas.admit(kafka.SCHEMA)
    return open_writer(
        topic,
        partition,
        directory=layout.wal_directory(folder, topic, partition),
        store=store,
        schemas=schemas,
        options=replace(WriterOptions(), ack="object"),
        world=Machine(seed).world,
        executor=EXECUTOR,
    )


def put(
    store: ObjectStore, folder: Path, *segments: Sequence[Any], partition: int = 0, topic: str = TOPIC, seed: int = 0
) -> None:
    """Seals values (see `texts`), with one segment for each sequence."""
    with closing(door(store, folder, partition, topic, seed)) as log:
        for values in segments:
            log.submit(records(log.next_offset, texts(values)))
            log.seal_all()
