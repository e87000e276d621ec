"""Has helpers for tests of the hot buffer."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa

from frazil.config.model import Config
from frazil.config.sections.kafka import BufferConfig
from frazil.config.sections.log import LogConfig, SealConfig
from frazil.config.sections.topics import TopicConfig
from frazil.formats import kafka

TOPIC = "orders"
START_MS = 1_700_000_000_000


def records(
    offsets: Sequence[int],
    keys: Sequence[bytes | None] | None = None,
    values: Sequence[bytes | None] | None = None,
    *,
    partition: int = 0,
    times: Sequence[int] | None = None,
) -> pa.RecordBatch:
    """Makes records from Kafka, by default with the key `k<offset>` and the value `v<offset>`."""
    count = len(offsets)
    return pa.record_batch(
        [
            pa.array([f"k{i}".encode() for i in offsets] if keys is None else keys, pa.binary()),
            pa.array([f"v{i}".encode() for i in offsets] if values is None else values, pa.binary()),
            pa.nulls(count, kafka.SCHEMA.field(kafka.HEADERS).type),
            pa.array([START_MS + i for i in offsets] if times is None else times, pa.timestamp("ms", "UTC")),
            pa.array([0] * count, pa.int8()),
            pa.array([partition] * count, pa.int32()),
            pa.array(offsets, pa.int64()),
        ],
        schema=kafka.SCHEMA,
    )


def config_of(folder: Path, *, max_size_mb: int = 64, ttl_seconds: float = 600.0, **topic: object) -> Config:
    """Returns settings with which nothing is sealed unless a test says so, and appends are stored only when
    sealed."""
    return Config(
        data_dir=folder / "data",
        store={"url": (folder / "store").as_uri()},
        log=LogConfig(seal=SealConfig(interval_seconds=3600), linger_ms=3_600_000),
        buffer=BufferConfig(max_size_mb=max_size_mb, ttl_seconds=ttl_seconds),
        topics={TOPIC: TopicConfig(**{"ack": "object", **topic})},
    )


def until(ready: Callable[[], bool], seconds: float = 30.0) -> None:
    """Waits for something that must happen."""
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.002)
