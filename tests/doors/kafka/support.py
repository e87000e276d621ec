"""A Kafka door in this process, on a log of its own, and what has come of its records."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from prometheus_client import CollectorRegistry

from frazil.config.model import Config
from frazil.doors.kafka.door import KafkaDoor
from frazil.log.log import Log
from frazil.store import ObjectStore
from tests.servers.kafka import KafkaServer, Record, RecordPosition

SECONDS = 60.0


def until(condition: Callable[[], object], seconds: float = SECONDS) -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it has not come true in time"
        time.sleep(0.02)


def numbered(count: int, partitions: int = 1) -> list[Record]:
    """Records that go to the partitions in turn."""
    return [Record(b"value %d" % n, b"key %d" % n, n % partitions) for n in range(count)]


def settings(
    server: KafkaServer, folder: Path, *topics: str, client: Mapping[str, object] | None = None, **changes: Any
) -> Config:
    """Settings that seal often, for a consumer group of the test's own; those of the client by their own names."""
    given: dict[str, Any] = {
        "data_dir": folder,
        "kafka": {
            "bootstrap_servers": [server.bootstrap],
            "topics": list(topics),
            "consumer_group": f"g{uuid.uuid4().hex}",
            "settings": {"session.timeout.ms": 3000, "heartbeat.interval.ms": 300, **(client or {})},
        },
        "buffer": {"flush_interval_seconds": 0.2},
    }
    for section, values in changes.items():
        given[section] = {**given.get(section, {}), **values} if isinstance(values, dict) else values
    return Config.model_validate(given)


@dataclass
class Running:
    door: KafkaDoor
    log: Log
    metrics: CollectorRegistry

    def reads(self, *partitions: tuple[str, int]) -> bool:
        """Whether it reads these, and no others."""
        return {feed.key for feed in self.door.feeds if feed.writer} == set(partitions)

    def metric(self, name: str, **labels: str) -> float:
        return self.metrics.get_sample_value(name, labels) or 0.0


@contextmanager
def running(config: Config, store: ObjectStore | None = None) -> Iterator[Running]:
    """A door that works; stopped in good order at the end."""
    metrics = CollectorRegistry()
    log = Log(config, store=store)
    try:
        door = KafkaDoor(config, log, metrics)
        door.start()
        try:
            yield Running(door, log, metrics)
        finally:
            door.stop()
    finally:
        log.close()


def rows(log: Log, topic: str) -> pa.Table:
    """All that is sealed of a topic, in the order of the log, partition by partition."""
    batches = [
        records.batch for partition in log.partitions(topic) for records in log.reader(topic, partition).read(0)
    ]
    return pa.Table.from_batches(batches) if batches else pa.table({"_kafka_partition": [], "_kafka_offset": []})


def places(log: Log, topic: str) -> list[RecordPosition]:
    """Where in Kafka the sealed records of a topic were, in the order of the log."""
    found = rows(log, topic)
    return [
        RecordPosition(*place)
        for place in zip(
            found.column("_kafka_partition").to_pylist(), found.column("_kafka_offset").to_pylist(), strict=True
        )
    ]


def sealed(log: Log, topic: str) -> int:
    """How many records of a topic are sealed, without reading them."""
    return sum(log.reader(topic, partition).bounds().sealed_end for partition in log.partitions(topic))
