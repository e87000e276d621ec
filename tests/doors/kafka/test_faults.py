"""A store that fails and brokers that are away: consumption waits, and nothing is lost."""

from __future__ import annotations

import random
from contextlib import closing
from pathlib import Path

from frazil.log.log import Log
from frazil.store.local import LocalStore
from tests.doors.kafka.support import numbered, places, running, sealed, settings, until
from tests.faults.faulty_store import Faults, FaultyStore
from tests.servers.broker import Broker
from tests.servers.kafka import KafkaServer, Record


def test_partitions_are_paused_while_the_log_is_full(kafka: KafkaServer, tmp_path: Path) -> None:
    topic = kafka.create_topic(partitions=2)
    produced = kafka.produce(topic, [Record(b"x" * 50_000, partition=n % 2) for n in range(100)])
    store = FaultyStore(LocalStore(tmp_path / "store"), random.Random(0))
    with running(settings(kafka, tmp_path, topic, log={"max_tail_mb": 1, "max_append_mb": 1}), store) as door:
        until(lambda: door.reads((topic, 0), (topic, 1)))
        store.down = True
        until(lambda: all(feed.paused for feed in door.door.feeds))
        assert door.metric("frazil_backpressure_total", topic=topic) >= 2
        assert all(feed.unsealed_bytes <= 1 << 20 for feed in door.door.feeds)
        store.down = False
        until(lambda: sealed(door.log, topic) == 100)
        assert places(door.log, topic) == sorted(produced)
        until(lambda: not any(feed.paused for feed in door.door.feeds))


def test_little_of_many_partitions_fills_the_buffer_too(kafka: KafkaServer, tmp_path: Path) -> None:
    """None is due by its own size, and its time is far: it is sealed all the same."""
    topic = kafka.create_topic(partitions=4)
    produced = kafka.produce(topic, [Record(b"x" * 50_000, partition=n % 4) for n in range(100)])
    config = settings(kafka, tmp_path, topic, buffer={"max_size_mb": 1, "flush_interval_seconds": 3600})
    with running(config) as door:
        # What is left has room in the buffer.
        until(lambda: sum(feed.next for feed in door.door.feeds) == 100 and sealed(door.log, topic) >= 80)
        assert door.metric("frazil_backpressure_total", topic=topic) >= 1
    with closing(Log(config)) as log:
        assert places(log, topic) == sorted(produced)


def test_a_store_that_fails_at_random_loses_and_repeats_nothing(
    kafka: KafkaServer, tmp_path: Path, seed: int
) -> None:
    topic = kafka.create_topic(partitions=2)
    faults = Faults(before=0.07, after=0.07, delayed=0.07)
    store = FaultyStore(LocalStore(tmp_path / "store"), random.Random(seed), faults)
    retry = {"base_delay_ms": 10, "max_delay_seconds": 0.2}
    produced = []
    with running(settings(kafka, tmp_path, topic, kafka={"retry": retry}), store) as door:
        for rounds in range(1, 6):
            produced += kafka.produce(topic, numbered(200, 2))
            until(lambda all_of=200 * rounds: sum(feed.next for feed in door.door.feeds) == all_of)  # type: ignore[misc]
            store.release_delayed()
        store.faults = Faults()
        until(lambda: sealed(door.log, topic) == len(produced))
        assert places(door.log, topic) == sorted(produced)


def test_brokers_that_are_away_are_waited_for(own_kafka: Broker, tmp_path: Path) -> None:
    kafka = KafkaServer.at(own_kafka.endpoint)
    topic = kafka.create_topic(partitions=2)
    produced = kafka.produce(topic, numbered(100, 2))
    quick = {"retry": {"max_delay_seconds": 0.5}}
    with running(settings(kafka, tmp_path, topic, kafka=quick)) as door:
        until(lambda: sealed(door.log, topic) == 100)
        own_kafka.kill()
        until(lambda: "brokers" in door.door.health().details)
        assert door.door.health().status == "degraded"
        own_kafka.start()
        produced += kafka.produce(topic, numbered(100, 2))
        until(lambda: sealed(door.log, topic) == 200)
        assert places(door.log, topic) == sorted(produced)
        until(lambda: door.door.health().status == "healthy")
