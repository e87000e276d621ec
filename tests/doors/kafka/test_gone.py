"""What Kafka no longer has: the topic stops with both numbers, the others go on, and a person decides."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from frazil.doors.kafka.cluster import Cluster
from frazil.doors.kafka.decisions import KafkaPositions
from frazil.doors.kafka.opening import Opener
from frazil.errors import KafkaOffsetsGone, KafkaTopicReplaced
from frazil.log.log import Log
from frazil.store.local import LocalStore
from tests.doors.kafka.support import Running, numbered, places, running, sealed, settings, until
from tests.faults.faulty_store import FaultyStore
from tests.log.support import SCHEMA
from tests.log.support import rows as batch
from tests.servers.broker import Broker
from tests.servers.kafka import KafkaServer, Record


def problem_of(door: Running, topic: str) -> str:
    return door.door.health().details.get(topic, "")


def stops(door: Running, topic: str, *words: str) -> Callable[[], bool]:
    return lambda: all(word in problem_of(door, topic) for word in ("frazil topics resume", *words))


def test_records_that_retention_took_are_left_out_only_when_a_person_says_so(
    kafka: KafkaServer, tmp_path: Path
) -> None:
    topic, other = kafka.create_topic(partitions=2), kafka.create_topic()
    config = settings(kafka, tmp_path, topic, other)
    before = kafka.produce(topic, numbered(20, 2))
    with running(config) as door:
        until(lambda: sealed(door.log, topic) == 20)
    kafka.produce(topic, [Record(b"lost", partition=1)] * 30)
    kafka.delete_records(topic, 1, 35)
    after = kafka.produce(topic, numbered(10, 2))
    with running(config) as door:
        until(stops(door, topic, f"{topic}/1: offset 10 comes next", "earliest that Kafka has is 35", "25 offsets"))
        # The topic stops as a whole, the others go on, and nothing has been skipped.
        kafka.produce(other, numbered(10))
        until(lambda: sealed(door.log, other) == 10)
        assert door.reads((other, 0))
        assert places(door.log, topic) == sorted(before)
        positions = KafkaPositions.of(config, door.log.store, topic)
        assert positions
        (gap,) = positions.gaps()
        assert (gap.partition, type(gap.error)) == (1, KafkaOffsetsGone)
        assert positions.accept() == [f"{topic}/1 goes on at Kafka's offset 35."]
        assert not positions.gaps()
        assert not positions.accept()
        until(lambda: problem_of(door, topic) == "")
        left = [place for place in kafka.committed(topic) if place.partition == 0 or place.offset >= 35]
        until(lambda: sealed(door.log, topic) == 20 + len(after) + 5)
        assert set(places(door.log, topic)) == {*before, *left}
        assert len(places(door.log, topic)) == len({*before, *left})


def test_retention_overtakes_a_door_that_is_held_up(kafka: KafkaServer, tmp_path: Path) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, [Record(b"x" * 100_000)] * 30)
    store = FaultyStore(LocalStore(tmp_path / "store"), random.Random(0))
    with running(settings(kafka, tmp_path, topic, log={"max_tail_mb": 1, "max_append_mb": 1}), store) as door:
        until(lambda: door.reads((topic, 0)))
        store.down = True
        until(lambda: door.metric("frazil_kafka_paused", topic=topic, partition="0") == 1)
        (feed,) = door.door.feeds
        reached = feed.next
        kafka.delete_records(topic, 0, 29)
        store.down = False
        until(stops(door, topic, f"offset {reached} comes next", "earliest that Kafka has is 29"))
        assert [place.offset for place in places(door.log, topic)] == list(range(reached))


def test_a_topic_that_was_made_anew_is_another_one(kafka: KafkaServer, tmp_path: Path) -> None:
    topic = kafka.create_topic()
    config = settings(kafka, tmp_path, topic, client={"topic.metadata.refresh.interval.ms": 200})
    before = kafka.produce(topic, numbered(10))
    with running(config) as door:
        until(lambda: sealed(door.log, topic) == 10)
        kafka.delete_topic(topic)
        kafka.create_topic(name=topic)
        # More than the first one had: the client goes on in it at offset 10 without a word.
        kafka.produce(topic, numbered(25))
        until(stops(door, topic, "up to offset 10", "made anew", "offset 0."))
        assert places(door.log, topic) == before
        positions = KafkaPositions.of(config, door.log.store, topic)
        assert positions
        assert [type(gap.error) for gap in positions.gaps()] == [KafkaTopicReplaced]
        positions.accept()
        until(lambda: sealed(door.log, topic) == 35)
        assert [place.offset for place in places(door.log, topic)] == [*range(10), *range(25)]
        assert door.door.health().status == "healthy"


def test_partitions_that_only_the_new_topic_has_wait_too(kafka: KafkaServer, tmp_path: Path) -> None:
    """They may be assigned to a process that has none of those that were read before."""
    topic = kafka.create_topic()
    kafka.produce(topic, numbered(1))
    config = settings(kafka, tmp_path, topic)
    with running(config) as door:
        until(lambda: sealed(door.log, topic) == 1)
    kafka.delete_topic(topic)
    kafka.create_topic(name=topic, partitions=2)
    with Log(config) as log:
        cluster = Cluster(config.kafka, 10)
        opener, life = Opener(config, log, cluster), cluster.life(topic)
        with pytest.raises(KafkaTopicReplaced, match=f"{topic}/1: other partitions"):
            opener.open(topic, 1, life)
        positions = KafkaPositions.of(config, log.store, topic)
        assert positions
        positions.accept()
        assert opener.open(topic, 1, life).place == (life.identity, 0)


def test_records_that_were_taken_before_their_topic_was_deleted_are_kept(kafka: KafkaServer, tmp_path: Path) -> None:
    topic = kafka.create_topic()
    quick = {"topic.metadata.refresh.interval.ms": 200}
    config = settings(kafka, tmp_path, topic, client=quick, buffer={"flush_interval_seconds": 3600})
    produced = kafka.produce(topic, numbered(10))
    with running(config) as door:
        until(lambda: [feed.next for feed in door.door.feeds] == [10])
        kafka.delete_topic(topic)
        until(lambda: sealed(door.log, topic) == 10)
        assert places(door.log, topic) == produced
        until(lambda: "has no topic" in problem_of(door, topic))


def test_a_topic_that_is_not_there_yet_is_told_and_awaited(kafka: KafkaServer, tmp_path: Path) -> None:
    name = f"{kafka.create_topic()}-later"
    with running(settings(kafka, tmp_path, name, client={"topic.metadata.refresh.interval.ms": 200})) as door:
        until(lambda: f"has no topic '{name}'" in problem_of(door, name))
        kafka.create_topic(name=name)
        kafka.produce(name, numbered(5))
        until(lambda: sealed(door.log, name) == 5)
        until(lambda: door.door.health().status == "healthy")


def test_a_partition_that_was_never_read_begins_where_it_was_first_seen(kafka: KafkaServer, tmp_path: Path) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, numbered(3))
    config = settings(kafka, tmp_path, topic, client={"auto.offset.reset": "latest"})
    with running(config) as door:
        until(lambda: door.reads((topic, 0)))
    # Nothing came meanwhile, so the log knows nothing of it; what comes now is not skipped all the same.
    later = kafka.produce(topic, numbered(2))
    with running(config) as door:
        until(lambda: sealed(door.log, topic) == 2)
        assert places(door.log, topic) == later


def test_where_to_begin_can_be_left_to_a_person(kafka: KafkaServer, tmp_path: Path) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, numbered(3))
    config = settings(kafka, tmp_path, topic, client={"auto.offset.reset": "error"})
    with running(config) as door:
        until(stops(door, topic, "was never read"))
        positions = KafkaPositions.of(config, door.log.store, topic)
        assert positions
        assert positions.accept() == [f"{topic}/0 goes on at Kafka's offset 0."]
        until(lambda: sealed(door.log, topic) == 3)


def test_a_topic_of_the_otlp_door_is_not_taken_from_kafka(kafka: KafkaServer, tmp_path: Path) -> None:
    kafka.create_topic(name="spans")
    other = kafka.create_topic()
    kafka.produce(other, numbered(3))
    with running(settings(kafka, tmp_path, "^spans$", other)) as door:
        until(lambda: sealed(door.log, other) == 3)
        until(lambda: "otlp.enabled" in problem_of(door, "spans"))
        assert door.log.topics() == [other]


def test_a_topic_of_other_records_is_not_mixed_with_kafkas(kafka: KafkaServer, tmp_path: Path) -> None:
    topic = kafka.create_topic()
    config = settings(kafka, tmp_path, topic)
    with Log(config) as log:
        log.writer(topic, SCHEMA).append(batch(0, 1))
    with running(config) as door:
        until(lambda: "did not come from Kafka" in problem_of(door, topic))
        assert door.reads()


@pytest.mark.parametrize("name", ["-dash", ".dot"])
def test_a_name_that_cannot_be_a_topic_stops_only_that_topic(kafka: KafkaServer, tmp_path: Path, name: str) -> None:
    topic = kafka.create_topic()
    odd = kafka.create_topic(name=f"{name}{topic}")
    with running(settings(kafka, tmp_path, f"^.?[a-z]*{topic}$")) as door:
        until(lambda: "cannot be a topic" in problem_of(door, odd))
        until(lambda: door.reads((topic, 0)))


def test_other_brokers_at_the_same_address(own_kafka: Broker, tmp_path: Path) -> None:
    kafka = KafkaServer.at(own_kafka.endpoint)
    topic = kafka.create_topic()
    quick = {"topic.metadata.refresh.interval.ms": 200}
    config = settings(kafka, tmp_path / "data", f"^{topic}", client=quick)
    kafka.produce(topic, numbered(10))
    others = Broker(tmp_path / "others", int(own_kafka.bootstrap.rpartition(":")[2]))
    try:
        with running(config) as door:
            until(lambda: sealed(door.log, topic) == 10)
            own_kafka.stop()
            others.start()
            kafka = KafkaServer.at(others.endpoint)
            kafka.create_topic(name=topic)
            later = kafka.create_topic(name=f"{topic}-later")
            for name in (topic, later):
                kafka.produce(name, numbered(3))
            until(stops(door, topic, "up to offset 10", "made anew", "offset 0."))
            until(lambda: sealed(door.log, later) == 3)
            positions = KafkaPositions.of(config, door.log.store, topic)
            assert positions
            positions.accept()
            until(lambda: sealed(door.log, topic) == 13)
        with running(config) as door:
            until(lambda: door.reads((topic, 0), (later, 0)))
            assert door.door.health().status == "healthy"
            assert (sealed(door.log, topic), sealed(door.log, later)) == (13, 3)
    finally:
        others.stop()
