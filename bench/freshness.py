"""Measures how long it takes from producing a record to reading it, from the hot buffer and from the table."""

from __future__ import annotations

import time
from collections.abc import Iterator

from confluent_kafka import Producer
from tests.servers.kafka import KafkaServer

from bench.figures import Bench, Figure, Latencies
from bench.frazil_process import Connection, Frazil, committed
from bench.kafka import settings
from bench.kafka_records import Records, broker
from bench.sampling import Sampler
from frazil.config.model import Config
from frazil.config.sections.kafka import BufferConfig
from frazil.config.sections.pipeline import PipelineConfig
from frazil.config.sections.section import Section

PAUSE_SECONDS = 0.1
"""The pause between two records: little happens in the topic, so that no batch is full before its time."""
HOT_POLL_SECONDS = 0.002
TABLE_SAMPLE_SECONDS = 0.05
ONE_SECOND: dict[str, Section] = {
    "buffer": BufferConfig(flush_interval_seconds=1),
    "pipeline": PipelineConfig(flush_interval_seconds=1),
}


def freshness(bench: Bench) -> Iterator[Figure]:
    """Sends single records, one after the other, through `frazil serve`.

    The intervals are those of sealing and of batches.
    """
    count = 60 if bench.quick else 300
    with broker(bench) as server:
        if not bench.quick:
            yield from _run(bench, server, "flush intervals of 10 s", {}, count)
        yield from _run(bench, server, "flush intervals of 1 s", ONE_SECOND, count)


def _run(bench: Bench, server: KafkaServer, name: str, changes: dict[str, Section], count: int) -> Iterator[Figure]:
    topic = server.create_topic()
    config = settings(server, bench.folder / topic, topic).model_copy(update=changes)
    with Frazil("serve", config, bench.folder) as frazil, frazil.connect() as connection:
        producing = _Producing(server, topic, connection)
        bench.say(f"freshness, {name}: until a first record is in the table")
        producing.produce()
        frazil.wait(lambda: committed(config, topic) >= 1)
        with _TableSampler(config, topic) as table:
            for number in range(count):
                if number % 50 == 0:
                    bench.say(f"freshness, {name}: {number} of {count} records")
                producing.produce()
                time.sleep(PAUSE_SECONDS)
            frazil.wait(lambda: table.end > count, TABLE_SAMPLE_SECONDS)
    hot = Latencies.of(producing.taken[1:])
    cold = Latencies.of([table.seen_at(number) - at for number, at in enumerate(producing.times) if number])
    for where, latencies in (("hot read", hot), ("the table", cold)):
        yield Figure(f"from produce to {where}, {name}: p50", "ms", latencies.p50)
        yield Figure(f"from produce to {where}, {name}: p99", "ms", latencies.p99)


class _Producing:
    """Produces one record after the other, and waits for each until it can be read over HTTP."""

    def __init__(self, server: KafkaServer, topic: str, connection: Connection) -> None:
        self._topic = topic
        self._connection = connection
        self._records = Records()
        self._producer = Producer({"bootstrap.servers": server.bootstrap, "log_level": 0, "linger.ms": 0})
        self.times: list[float] = []
        """The time at which each record was produced."""
        self.taken: list[float] = []
        """The seconds until each record was read."""

    def produce(self) -> None:
        (record,) = self._records.some(1)
        path = f"/hot/{self._topic}/0/{len(self.times)}"
        started = time.monotonic()
        self._producer.produce(self._topic, record["value"], record["key"], 0)
        self._producer.poll(0)
        while (status := self._connection.get(path)[0]) != 200:
            assert status == 404, f"{path}: {status}"
            time.sleep(HOT_POLL_SECONDS)
        self.taken.append(time.monotonic() - started)
        self.times.append(started)


class _TableSampler(Sampler):
    """Records how many records were in a table at which time."""

    def __init__(self, config: Config, topic: str) -> None:
        super().__init__(TABLE_SAMPLE_SECONDS)
        self._config = config
        self._topic = topic
        self._seen: list[tuple[int, float]] = []

    @property
    def end(self) -> int:
        return self._seen[-1][0] if self._seen else 0

    def seen_at(self, offset: int) -> float:
        return next(at for end, at in self._seen if end > offset)

    def _sample(self) -> None:
        end = committed(self._config, self._topic)
        if end > self.end:
            self._seen.append((end, time.monotonic()))
