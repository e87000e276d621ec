"""Tests that the broker of the tests is a real one: transactions, deletion and restarts are Kafka's own."""

from __future__ import annotations

import random

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from tests.servers.broker import Broker
from tests.servers.kafka import KafkaServer, Record, RecordPosition


def test_records_arrive_where_they_were_sent(kafka: KafkaServer) -> None:
    topic = kafka.create_topic(partitions=2)
    sent = [
        Record(b"a", partition=1),
        Record(None, b"k", 0, [("h", b"1"), ("h", None)], 1000),
        Record(b"b", partition=1),
    ]
    assert kafka.produce(topic, sent) == [RecordPosition(1, 0), RecordPosition(0, 0), RecordPosition(1, 1)]
    assert kafka.watermarks(topic, 1) == (0, 2)
    assert kafka.committed(topic)[RecordPosition(0, 0)] == sent[1]
    kafka.delete_records(topic, 1, 1)
    assert kafka.watermarks(topic, 1) == (1, 2)
    kafka.add_partitions(topic, 3)
    assert kafka.produce(topic, [Record(b"c", partition=2)]) == [RecordPosition(2, 0)]
    kafka.delete_topic(topic)
    kafka.create_topic(name=topic)
    assert kafka.watermarks(topic, 0) == (0, 0)


def test_only_committed_transactions_are_seen(kafka: KafkaServer, seed: int) -> None:
    choose = random.Random(seed)
    topic = kafka.create_topic()
    transactions = kafka.transactions()
    expected: dict[RecordPosition, bytes] = {}
    for number in range(10):
        records = [Record(b"%d" % number)] * choose.randint(1, 5)
        commit = choose.random() < 0.5
        places = (transactions.commit if commit else transactions.abort)(topic, records)
        expected |= {place: b"%d" % number for place in places if commit}
    assert {place: record.value for place, record in kafka.committed(topic).items()} == expected


def test_a_password_is_asked_for(kafka: KafkaServer) -> None:
    assert AdminClient(kafka.sasl).list_topics(timeout=20).brokers
    with pytest.raises(KafkaException):
        AdminClient({**kafka.sasl, "sasl.password": "wrong", "log_level": 0}).list_topics(timeout=1)


def test_a_broker_keeps_its_address_and_its_data(own_kafka: Broker) -> None:
    kafka = KafkaServer.at(own_kafka.endpoint)
    topic = kafka.create_topic()
    kafka.produce(topic, [Record(b"before")])
    own_kafka.kill()
    own_kafka.start()
    assert kafka.produce(topic, [Record(b"after")]) == [RecordPosition(0, 1)]
    assert [record.value for record in kafka.committed(topic).values()] == [b"before", b"after"]
