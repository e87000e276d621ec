"""The Kafka door against a real broker: everything arrives, once, and goes on where it was."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from frazil.formats.kafka import UNREADABLE
from tests.doors.kafka import odd_headers
from tests.doors.kafka.support import numbered, places, rows, running, sealed, settings, until
from tests.servers.kafka import KafkaServer, Record


def test_topics_by_name_and_by_pattern_arrive_once(kafka: KafkaServer, tmp_path: Path) -> None:
    named = kafka.create_topic(partitions=2)
    matched = kafka.create_topic(name=f"{named}-matched")
    kafka.create_topic(name=f"other-{named}-")
    produced = {topic: kafka.produce(topic, numbered(1000, 2 if topic == named else 1)) for topic in (named, matched)}
    with running(settings(kafka, tmp_path, named, f"^{named}-.*")) as door:
        until(lambda: all(sealed(door.log, topic) == 1000 for topic in (named, matched)))
        assert door.log.topics() == sorted([named, matched])
        for topic, there in produced.items():
            assert places(door.log, topic) == sorted(there)
            assert door.metric("frazil_messages_total", topic=topic) == 1000
        assert door.door.health().status == "healthy"


def test_new_topics_and_new_partitions_are_noticed(kafka: KafkaServer, tmp_path: Path) -> None:
    first = kafka.create_topic()
    quick = {"topic.metadata.refresh.interval.ms": 200, "auto.offset.reset": "latest"}
    config = settings(kafka, tmp_path, f"^{first}", client=quick)
    kafka.produce(first, numbered(10))
    with running(config) as door:
        until(lambda: door.reads((first, 0)))
        # What was there before is not asked for; what comes in partitions and topics that are new is.
        after = kafka.produce(first, numbered(1))
        kafka.add_partitions(first, 2)
        added = kafka.produce(first, [Record(b"in a new partition", partition=1)])
        until(lambda: door.reads((first, 0), (first, 1)))
        until(lambda: sealed(door.log, first) == 2)
        assert places(door.log, first) == [*after, *added]
        second = kafka.create_topic(name=f"{first}-later")
        until(lambda: door.reads((first, 0), (first, 1), (second, 0)))


def test_all_that_kafka_knows_of_a_record_arrives(kafka: KafkaServer, tmp_path: Path) -> None:
    topic = kafka.create_topic()
    appended = kafka.create_topic(config={"message.timestamp.type": "LogAppendTime"})
    kafka.produce(
        topic,
        [
            Record(b"v", b"k", headers=[("a", b"1"), ("b", None), ("a", b"")], timestamp=1_700_000_000_123),
            Record(None, b"tombstone"),
            Record(b"", None),
        ],
    )
    kafka.produce(appended, [Record(b"v")])
    with running(settings(kafka, tmp_path, topic, appended)) as door:
        until(lambda: sealed(door.log, topic) == 3 and sealed(door.log, appended) == 1)
        found = rows(door.log, topic).to_pylist()
        assert rows(door.log, appended).column("_kafka_timestamp_type").to_pylist() == [1]
    assert [row["_kafka_key"] for row in found] == [b"k", b"tombstone", None]
    assert [row["_kafka_value"] for row in found] == [b"v", None, b""]
    assert found[0]["_kafka_headers"] == [
        {"key": "a", "value": b"1"},
        {"key": "b", "value": None},
        {"key": "a", "value": b""},
    ]
    assert [row["_kafka_headers"] for row in found[1:]] == [None, None]
    assert found[0]["_kafka_timestamp"].timestamp() == 1_700_000_000.123
    assert [row["_kafka_timestamp_type"] for row in found] == [0, 0, 0]
    assert [(row["_kafka_partition"], row["_kafka_offset"]) for row in found] == [(0, 0), (0, 1), (0, 2)]


def test_headers_that_cannot_be_read_stop_nobody(
    kafka: KafkaServer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    topic, other = kafka.create_topic(), kafka.create_topic()
    kafka.produce(topic, [Record(b"before", headers=[("a", b"1")])])
    odd_headers.produce(kafka.bootstrap, topic, b"odd", b"\xff\xfe")
    kafka.produce(topic, [Record(b"after", headers=[("b", b"2")])])
    kafka.produce(other, [Record(b"other")])
    with running(settings(kafka, tmp_path, topic, other)) as door:
        until(lambda: sealed(door.log, topic) == 3 and sealed(door.log, other) == 1)
        found = rows(door.log, topic).to_pylist()
    assert [row["_kafka_value"] for row in found] == [b"before", b"odd", b"after"]
    assert [row["_kafka_headers"][0]["key"] for row in found] == ["a", UNREADABLE, "b"]
    (warning,) = [record for record in caplog.records if "headers that cannot be read" in record.message]
    assert (warning.topic, warning.offset) == (topic, 1)  # type: ignore[attr-defined]


def test_restarts_lose_and_repeat_nothing(kafka: KafkaServer, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    topic = kafka.create_topic(partitions=3)
    config = settings(kafka, tmp_path, topic)
    produced = []
    for _ in range(4):
        produced += kafka.produce(topic, numbered(chance.randint(1, 3000), 3))
        with running(config) as door:
            enough = chance.randint(0, len(produced))
            until(lambda least=enough, log=door.log: sealed(log, topic) >= least)  # type: ignore[misc]
    with running(config) as door:
        until(lambda: sealed(door.log, topic) == len(produced))
        assert places(door.log, topic) == sorted(produced)


def test_a_clean_stop_seals_what_was_taken(kafka: KafkaServer, tmp_path: Path) -> None:
    topic = kafka.create_topic()
    produced = kafka.produce(topic, numbered(100))
    config = settings(kafka, tmp_path, topic, buffer={"flush_interval_seconds": 3600})
    with running(config) as door:
        until(lambda: [feed.next for feed in door.door.feeds] == [100])
        assert sealed(door.log, topic) == 0
        assert kafka.group_offsets(config.kafka.consumer_group, topic) in ({}, {0: 0})
    assert kafka.group_members(config.kafka.consumer_group) == 0
    assert kafka.group_offsets(config.kafka.consumer_group, topic) == {0: 100}
    with running(settings(kafka, tmp_path, kafka.create_topic())) as other:
        assert places(other.log, topic) == produced


def test_aborted_transactions_leave_nothing_but_their_offsets(kafka: KafkaServer, tmp_path: Path) -> None:
    topic = kafka.create_topic()
    config = settings(kafka, tmp_path, topic)
    writing = kafka.transactions()
    committed = writing.commit(topic, numbered(5))
    writing.abort(topic, numbered(7))
    with running(config) as door:
        until(lambda: sealed(door.log, topic) == 5)
        assert places(door.log, topic) == committed
        # Five records, seven that were taken back, and a note after each: all of it is behind us.
        until(lambda: kafka.group_offsets(config.kafka.consumer_group, topic) == {0: 14})
        until(lambda: [feed.lag for feed in door.door.feeds] == [0])
        writing.open(topic, numbered(3))
        until(lambda: [feed.end for feed in door.door.feeds] == [14])
        writing.end(commit=True)
        until(lambda: sealed(door.log, topic) == 8)


def test_messages_larger_than_an_append_are_taken(kafka: KafkaServer, tmp_path: Path) -> None:
    topic = kafka.create_topic(config={"max.message.bytes": str(4 << 20)})
    large = [Record(bytes([n]) * (3 << 20 if n == 4 else 500_000)) for n in range(8)]
    produced = kafka.transactions(None, **{"message.max.bytes": 4 << 20}).commit(topic, large)
    with running(settings(kafka, tmp_path, topic, log={"max_append_mb": 1})) as door:
        until(lambda: sealed(door.log, topic) == len(large))
        assert places(door.log, topic) == produced
        assert rows(door.log, topic).column("_kafka_value").to_pylist() == [each.value for each in large]


def test_a_pattern_that_nothing_matches_yet_is_no_trouble(kafka: KafkaServer, tmp_path: Path) -> None:
    topic = kafka.create_topic()
    kafka.produce(topic, numbered(5))
    with running(settings(kafka, tmp_path, topic, f"^{topic}-none$")) as door:
        until(lambda: sealed(door.log, topic) == 5)
        assert door.door.health().status == "healthy"
